//! Filters over items: the same expressions as over rows, on what one pass tells of each item.
//!
//! The columns are `item_id`, `root_item_id`, `parent_item_id`, `status`, `failed`, `run_id`, `created_at`,
//! `updated_at` and `tags.<key>` for every key that some item has. A tag has the type that all its values share;
//! otherwise it is compared as text.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::{DFSchema, TableReference};
use lance_context_spec::datagen::{ItemId, ItemSummary};
use lance_context_spec::{Error, Filter, Result};
use serde_json::{Map, Value as Json};

use crate::filter::FilterPlanner;

/// How tags are qualified.
const TAGS: &str = "tags";

/// Those of `items` that fulfil `filter`, in their order.
pub(super) fn matching<'a>(filter: &Filter, items: Vec<&'a ItemSummary>) -> Result<Vec<&'a ItemSummary>> {
    let (columns, rows) = table(&items)?;
    let fulfilled = FilterPlanner::over(columns).evaluate(filter, &rows)?;
    let keep = |at: usize| fulfilled.is_valid(at) && fulfilled.value(at);
    Ok(items.into_iter().enumerate().filter(|(at, _)| keep(*at)).map(|(_, item)| item).collect())
}

fn table(items: &[&ItemSummary]) -> Result<(DFSchema, RecordBatch)> {
    let tags: Vec<Map<String, Json>> = items.iter().map(|item| tags_of(item)).collect();
    let keys: BTreeMap<&str, ()> = tags.iter().flat_map(|tags| tags.keys().map(|key| (key.as_str(), ()))).collect();
    let own = own_columns(items).into_iter().map(|(name, array)| (None, name, array));
    let tagged = keys.keys().map(|key| (Some(TableReference::bare(TAGS)), *key, tag_column(key, &tags)));
    let (mut qualified, mut arrays) = (Vec::new(), Vec::new());
    for (qualifier, name, array) in own.chain(tagged) {
        let field: FieldRef = Arc::new(Field::new(name, array.data_type().clone(), true));
        qualified.push((qualifier, field));
        arrays.push(array);
    }
    let fields: Vec<FieldRef> = qualified.iter().map(|(_, field)| Arc::clone(field)).collect();
    let internal = |message: &str, source: Box<dyn std::error::Error + Send + Sync>| Error::Internal {
        message: message.to_owned(),
        source: Some(source),
    };
    let options = RecordBatchOptions::new().with_row_count(Some(items.len()));
    let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| internal("items do not make a table", Box::new(e)))?;
    let columns = DFSchema::new_with_metadata(qualified, Default::default())
        .map_err(|e| internal("items cannot be queried", Box::new(e)))?;
    Ok((columns, rows))
}

fn own_columns(items: &[&ItemSummary]) -> Vec<(&'static str, ArrayRef)> {
    fn texts<'a>(texts: impl Iterator<Item = Option<String>> + 'a) -> ArrayRef {
        Arc::new(texts.collect::<StringArray>())
    }
    fn times(times: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(times.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
    }
    let id = |id: &ItemId| Some(id.as_str().to_owned());
    vec![
        ("item_id", texts(items.iter().map(|item| id(&item.item_id)))),
        ("root_item_id", texts(items.iter().map(|item| id(&item.item_id.root())))),
        ("parent_item_id", texts(items.iter().map(|item| id(&item.item_id.parent()?)))),
        ("status", texts(items.iter().map(|item| Some(item.status.name().to_owned())))),
        ("failed", Arc::new(items.iter().map(|item| Some(item.failed)).collect::<BooleanArray>())),
        ("run_id", texts(items.iter().map(|item| item.run_id.clone()))),
        ("created_at", times(items.iter().map(|item| item.created_at))),
        ("updated_at", times(items.iter().map(|item| item.updated_at))),
    ]
}

/// The tags of an item; none where they are no object.
fn tags_of(item: &ItemSummary) -> Map<String, Json> {
    item.query_tags.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The values of one tag, in the type that they share.
fn tag_column(key: &str, tags: &[Map<String, Json>]) -> ArrayRef {
    let values = || tags.iter().map(|tags| tags.get(key).filter(|value| !value.is_null()));
    let all = |is: fn(&Json) -> bool| values().flatten().all(is);
    if all(Json::is_boolean) {
        return Arc::new(values().map(|value| value.and_then(Json::as_bool)).collect::<BooleanArray>());
    }
    if all(Json::is_i64) {
        return Arc::new(values().map(|value| value.and_then(Json::as_i64)).collect::<Int64Array>());
    }
    if all(Json::is_number) {
        return Arc::new(values().map(|value| value.and_then(Json::as_f64)).collect::<Float64Array>());
    }
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Arc::new(values().map(|value| value.map(text)).collect::<StringArray>())
}
