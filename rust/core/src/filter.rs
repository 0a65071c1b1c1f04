//! Filters as DataFusion expressions: parsed, parameters bound, types coerced and checked before any row
//! is read.
//!
//! Identifiers match columns exactly as declared, quoted or not, so DataFusion's lower-casing is off.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, SchemaError, TableReference};
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::{Expr, SessionConfig, SessionContext, lit};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use lance_context_spec::schema::closest;
use lance_context_spec::{Error, Filter, Result, SchemaSpec, Value};

use crate::codec::{arrow_schema, value_to_scalar};

/// Plans filters over some columns.
pub(crate) struct FilterPlanner {
    /// The names of the columns, with their qualifier where they have one.
    names: Vec<String>,
    session: SessionContext,
    columns: Arc<DFSchema>,
}

impl std::fmt::Debug for FilterPlanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilterPlanner").finish_non_exhaustive()
    }
}

impl FilterPlanner {
    pub fn new(spec: &SchemaSpec) -> Result<Self> {
        let columns = DFSchema::try_from(arrow_schema(spec).as_ref().clone()).map_err(|e| Error::Internal {
            message: "the schema cannot be queried".to_owned(),
            source: Some(Box::new(e)),
        })?;
        Ok(Self::over(columns))
    }

    /// A planner over columns that are not a store's.
    pub fn over(columns: DFSchema) -> Self {
        let config = SessionConfig::new().set_bool("datafusion.sql_parser.enable_ident_normalization", false);
        let qualified = |(qualifier, field): (Option<&TableReference>, &FieldRef)| match qualifier {
            Some(qualifier) => format!("{}.{}", qualifier.table(), field.name()),
            None => field.name().clone(),
        };
        let names = columns.iter().map(qualified).collect();
        Self { names, session: SessionContext::new_with_config(config), columns: Arc::new(columns) }
    }

    /// Which of `rows`, whose columns are the planner's in their order, fulfil `filter`.
    pub fn evaluate(&self, filter: &Filter, rows: &RecordBatch) -> Result<BooleanArray> {
        let expression = self.plan(filter)?;
        let text = filter_text(filter);
        let planned = self.session.create_physical_expr(expression, &self.columns);
        let planned = planned.map_err(|e| self.query_error(text, &e))?;
        let evaluated = planned.evaluate(rows).and_then(|value| value.into_array(rows.num_rows()));
        let evaluated = evaluated
            .map_err(|e| Error::InvalidQuery { message: format!("the filter fails on the data: {}", e.find_root()) })?;
        evaluated
            .as_boolean_opt()
            .cloned()
            .ok_or_else(|| Error::Internal { message: "a condition came to something else".to_owned(), source: None })
    }

    /// The boolean expression of `filter`.
    pub fn plan(&self, filter: &Filter) -> Result<Expr> {
        let expression = match filter {
            Filter::Sql { expression, params } => {
                check_size(operators(expression))?;
                let parsed = self.session.parse_sql_expr(expression, &self.columns);
                bind(parsed.map_err(|e| self.query_error(expression, &e))?, params)?
            }
            Filter::Equals(wanted) => self.equalities(wanted)?,
        };
        self.checked(filter_text(filter), expression)
    }

    fn equalities(&self, wanted: &[(String, Value<'static>)]) -> Result<Expr> {
        check_size(wanted.len())?;
        let equal = |(name, value): &(String, Value<'static>)| {
            let column = self.column(name).ok_or_else(|| self.unknown(name))?;
            match value {
                Value::Null => Ok(column.is_null()),
                value => Ok(column.eq(lit(value_to_scalar(value)?))),
            }
        };
        let all = wanted.iter().map(equal).collect::<Result<Vec<_>>>()?;
        Ok(conjunction(all).unwrap_or_else(|| lit(true)))
    }

    fn column(&self, name: &str) -> Option<Expr> {
        let at = self.names.iter().position(|known| known == name)?;
        let (qualifier, field) = self.columns.qualified_field(at);
        Some(Expr::Column(Column::new(qualifier.cloned(), field.name())))
    }

    /// Coerces, and refuses what would fail or mean nothing on every row.
    fn checked(&self, text: &str, expression: Expr) -> Result<Expr> {
        let context = SimplifyContext::builder().with_schema(Arc::clone(&self.columns)).build();
        let coerced =
            ExprSimplifier::new(context).coerce(expression, &self.columns).map_err(|e| self.query_error(text, &e))?;
        let planned = self.session.create_physical_expr(coerced.clone(), &self.columns);
        planned.map_err(|e| self.query_error(text, &e))?;
        match coerced.get_type(self.columns.as_ref()) {
            Ok(DataType::Boolean) => Ok(coerced),
            Ok(other) => Err(Error::InvalidQuery {
                message: format!("the filter `{text}` yields {other}; a condition that is true or false is needed"),
            }),
            Err(e) => Err(self.query_error(text, &e)),
        }
    }

    fn query_error(&self, text: &str, error: &DataFusionError) -> Error {
        match error.find_root() {
            DataFusionError::SchemaError(reason, _) => match reason.as_ref() {
                SchemaError::FieldNotFound { field, .. } => self.unknown(&match &field.relation {
                    Some(qualifier) => format!("{}.{}", qualifier.table(), field.name),
                    None => field.name.clone(),
                }),
                other => invalid(text, &other.to_string()),
            },
            root => invalid(text, &root.to_string()),
        }
    }

    fn unknown(&self, name: &str) -> Error {
        let suggestion = closest(name, self.names.iter().map(String::as_str)).map(str::to_owned);
        Error::QueryColumn { column: name.to_owned(), suggestion, known: self.names.clone() }
    }
}

fn filter_text(filter: &Filter) -> &str {
    match filter {
        Filter::Sql { expression, .. } => expression,
        Filter::Equals(_) => "the mapping",
    }
}

/// Planning and evaluation recurse once an operator, on stacks of fixed size.
const MAX_OPERATORS: usize = 400;

fn check_size(operators: usize) -> Result<()> {
    if operators <= MAX_OPERATORS {
        return Ok(());
    }
    Err(Error::InvalidQuery {
        message: format!(
            "the filter has {operators} operators, more than the {MAX_OPERATORS} that are supported; \
             a long list of values fits into one `column IN (...)`"
        ),
    })
}

/// How many tokens of `expression` can nest: operators, keywords and parentheses. The items of an `IN`
/// list, which lie flat, do not count. Text that is no SQL counts as nothing: the parser will say so.
fn operators(expression: &str) -> usize {
    let tokens = Tokenizer::new(&GenericDialect {}, expression).tokenize().unwrap_or_default();
    let mut count = 0;
    let mut before = &Token::Comma;
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        count += usize::from(match token {
            Token::Word(word) => word.keyword != Keyword::NoKeyword,
            // The sign of a value in a list.
            Token::Minus | Token::Plus => !matches!(before, Token::Comma | Token::LParen),
            Token::Number(..) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => false,
            Token::Placeholder(_) | Token::Comma | Token::RParen => false,
            _ => true,
        });
        before = token;
    }
    count
}

fn invalid(text: &str, reason: &str) -> Error {
    let reason = reason.lines().next().unwrap_or(reason);
    Error::InvalidQuery { message: format!("the filter `{text}` cannot be understood: {reason}") }
}

/// Puts parameter values in the place of `$name`; each must be given and used.
fn bind(expression: Expr, params: &[(String, Value<'static>)]) -> Result<Expr> {
    let mut used = Vec::new();
    expression
        .apply(|node| {
            if let Expr::Placeholder(placeholder) = node {
                used.push(placeholder.id.trim_start_matches('$').to_owned());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(|e| invalid("params", &e.to_string()))?;
    let parameter =
        |name: &str, message: &str| Error::QueryParameter { name: name.to_owned(), message: message.to_owned() };
    for name in &used {
        if !params.iter().any(|(given, _)| given == name) {
            return Err(parameter(name, "the filter uses it and `params` does not give it"));
        }
    }
    let mut values = Vec::with_capacity(params.len());
    for (name, value) in params {
        if !used.contains(name) {
            return Err(parameter(name, "`params` gives it and the filter does not use it"));
        }
        values.push((name, value_to_scalar(value)?));
    }
    let bound = expression.transform_up(|node| {
        let Expr::Placeholder(placeholder) = &node else { return Ok(Transformed::no(node)) };
        let name = placeholder.id.trim_start_matches('$');
        Ok(match values.iter().find(|(given, _)| given.as_str() == name) {
            Some((_, value)) => Transformed::yes(lit(value.clone())),
            None => Transformed::no(node),
        })
    });
    Ok(bound.map_err(|e| invalid("params", &e.to_string()))?.data)
}
