use proptest::prelude::*;

use super::{ColumnSpec, ColumnType, Fields, Metric, SchemaSpec, VectorType};
use crate::{Error, Kind};

fn parse(json: &str) -> SchemaSpec {
    SchemaSpec::parse(json).unwrap()
}

/// The type of column `c` declared as `declaration`.
fn column(declaration: &str) -> ColumnSpec {
    parse(&format!(r#"{{"id":"string","c":{declaration}}}"#)).column("c").unwrap().1.clone()
}

/// The error of a schema, which must be a `SchemaError`.
fn refused(json: &str) -> Error {
    let error = SchemaSpec::parse(json).unwrap_err();
    assert_eq!(error.kind(), Kind::Schema, "{error}");
    error
}

/// The message of column `c` declared as `declaration`.
fn refusal(declaration: &str) -> String {
    let error = refused(&format!(r#"{{"id":"string","c":{declaration}}}"#));
    assert_eq!(error.column(), Some("c"), "{error}");
    error.to_string()
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn shorthand_and_tagged_forms_mean_the_same() {
    let cases = [
        (r#""string""#, r#"{"type":"string"}"#, ColumnType::String { large: false }),
        (r#""int32""#, r#"{"type":"int32"}"#, ColumnType::Int32),
        (r#""int64""#, r#"{"type":"int64","nullable":true}"#, ColumnType::Int64),
        (r#""float32""#, r#"{"type":"float32"}"#, ColumnType::Float32),
        (r#""float64""#, r#"{"type":"float64"}"#, ColumnType::Float64),
        (r#""bool""#, r#"{"type":"bool"}"#, ColumnType::Bool),
        (r#""int8""#, r#"{"type":"int8"}"#, ColumnType::Int8),
        (r#""int16""#, r#"{"type":"int16"}"#, ColumnType::Int16),
        (r#""uint8""#, r#"{"type":"uint8"}"#, ColumnType::UInt8),
        (r#""uint16""#, r#"{"type":"uint16"}"#, ColumnType::UInt16),
        (r#""uint32""#, r#"{"type":"uint32"}"#, ColumnType::UInt32),
        (r#""uint64""#, r#"{"type":"uint64"}"#, ColumnType::UInt64),
        (r#""float16""#, r#"{"type":"float16"}"#, ColumnType::Float16),
        (r#""date""#, r#"{"type":"date"}"#, ColumnType::Date),
        (r#""json""#, r#"{"type":"json"}"#, ColumnType::Json),
        (r#""timestamp""#, r#"{"type":"timestamp","unit":"us","tz":"UTC"}"#, ColumnType::Timestamp { utc: true }),
        (r#""binary""#, r#"{"type":"binary","blob":false}"#, ColumnType::Binary { blob: false }),
        (r#""blob""#, r#"{"type":"binary","blob":true}"#, ColumnType::Binary { blob: true }),
    ];
    for (shorthand, tagged, expected) in cases {
        let spec = ColumnSpec { name: "c".into(), column_type: expected, nullable: true };
        assert_eq!(column(shorthand), spec);
        assert_eq!(column(tagged), spec);
    }
}

#[test]
fn the_key_can_have_another_name() {
    let json = r#"{"n":"int64","event_id":"string","id":"int64"}"#;
    let schema = SchemaSpec::parse_keyed("event_id", json).unwrap();
    assert_eq!(schema.key(), "event_id");
    assert!(!schema.column("event_id").unwrap().1.nullable && schema.column("id").unwrap().1.nullable);
    assert_eq!(schema.default_projection(), ["event_id", "n", "id"]);
    let asked = ["id".to_owned(), "event_id".to_owned()];
    assert_eq!(schema.resolve_projection(Some(&asked)).unwrap(), ["event_id", "id"]);
    assert_eq!(schema.only(&asked).key(), "event_id");
    let read = SchemaSpec::parse_keyed("event_id", &schema.to_json()).unwrap();
    assert_eq!(read.diff(&schema), None);
    for (json, said) in [
        (r#"{"id":"string"}"#, "column `event_id` is missing; declare `\"event_id\": \"string\"`"),
        (r#"{"Event_ID":"string"}"#, "`Event_ID` is spelled differently"),
        (r#"{"event_id":"int64"}"#, "the key is always a plain `string`, not int64"),
        (r#"{"event_id":{"type":"string","nullable":true}}"#, "the key cannot be nullable"),
    ] {
        let error = SchemaSpec::parse_keyed("event_id", json).unwrap_err();
        assert_eq!(error.kind(), Kind::Schema);
        assert_says(&error.to_string(), &[said]);
    }
}

#[test]
fn another_key_is_another_schema() {
    let json = r#"{"id":{"type":"string","nullable":false},"event_id":{"type":"string","nullable":false}}"#;
    let (one, other) = (parse(json), SchemaSpec::parse_keyed("event_id", json).unwrap());
    assert!(one != other);
    assert_eq!(one.diff(&other).unwrap(), "changed the key (declared `id`, stored `event_id`)");
}

#[test]
fn options_are_read() {
    assert_eq!(column(r#"{"type":"string","large":true}"#).column_type, ColumnType::String { large: true });
    assert_eq!(column(r#"{"type":"timestamp","tz":null}"#).column_type, ColumnType::Timestamp { utc: false });
    assert!(!column(r#"{"type":"int64","nullable":false}"#).nullable);
    for (alias, metric) in [
        ("l2", Metric::L2),
        ("euclidean", Metric::L2),
        ("cosine", Metric::Cosine),
        ("dot", Metric::Dot),
        ("dot_product", Metric::Dot),
    ] {
        let vector = column(&format!(r#"{{"type":"vector","dim":3,"metric":"{alias}","dtype":"float32"}}"#));
        assert_eq!(vector.column_type, ColumnType::Vector { dim: 3, metric, dtype: VectorType::Float32 });
    }
    let half = column(r#"{"type":"vector","dim":3,"dtype":"float16"}"#).column_type;
    assert_eq!(half, ColumnType::Vector { dim: 3, metric: Metric::L2, dtype: VectorType::Float16 });
    let decimal = |declaration| column(declaration).column_type;
    assert_eq!(
        decimal(r#"{"type":"decimal","precision":38,"scale":38}"#),
        ColumnType::Decimal { precision: 38, scale: 38 }
    );
    assert_eq!(decimal(r#"{"type":"decimal","precision":1}"#), ColumnType::Decimal { precision: 1, scale: 0 });
}

#[test]
fn decimals_have_up_to_38_digits() {
    for (options, part) in [
        (r#""precision":0"#, "1 to 38 digits, `precision` is `0`"),
        (r#""precision":39"#, "`precision` is `39`"),
        (r#""precision":4,"scale":5"#, "`scale` is `5`"),
        (r#""precision":4,"scale":-1"#, "`scale` is `-1`"),
        (r#""precision":4.5"#, "`precision` must be a whole number, got `4.5`"),
        (r#""scale":2"#, "a decimal needs `precision`"),
    ] {
        assert_says(&refusal(&format!(r#"{{"type":"decimal",{options}}}"#)), &[part]);
    }
}

#[test]
fn structs_have_scalars_by_name() {
    let point = r#"{"type":"struct","fields":{"x":"float32","y":{"type":"int64","nullable":false}}}"#;
    let field = |name: &str, column_type, nullable| ColumnSpec { name: name.into(), column_type, nullable };
    let x = field("x", ColumnType::Float32, true);
    let y = field("y", ColumnType::Int64, false);
    let declared = ColumnType::Struct { fields: Fields(vec![x.clone(), y.clone()]) };
    assert_eq!(column(point).column_type, declared);
    assert_eq!(declared, ColumnType::Struct { fields: Fields(vec![y.clone(), x.clone()]) }, "order does not count");
    assert_ne!(declared, ColumnType::Struct { fields: Fields(vec![x, field("y", ColumnType::Int64, true)]) });
    let points = format!(r#"{{"type":"list","item":{point}}}"#);
    assert_eq!(column(&points).column_type, ColumnType::List { item: Box::new(declared) });

    for (fields, parts) in [
        (r#""x""#, ["`fields` is an object", "got a string"]),
        ("{}", ["at least one field", "column `c`"]),
        (r#"{"x":"int8","x":"int8"}"#, ["field `x`", "declared twice"]),
        (r#"{"x":"int8","X":"int8"}"#, ["field `X`", "only by case"]),
        (r#"{"a.b":"int8"}"#, ["field `a.b`", "no `.`"]),
        (r#"{"_x":"int8"}"#, ["field `_x`", "reserved"]),
        (r#"{"x":"json"}"#, ["field `x` is a json", "scalars"]),
        (r#"{"x":"blob"}"#, ["field `x` is a blob", "scalars"]),
        (r#"{"x":{"type":"binary","blob":true}}"#, ["field `x` is a blob", "scalars"]),
        (r#"{"x":{"type":"list","item":"int8"}}"#, ["field `x` is a list", "`json`"]),
        (r#"{"x":{"type":"struct","fields":{"y":"int8"}}}"#, ["field `x` is a struct", "`json`"]),
        (r#"{"x":{"type":"decimal","precision":99}}"#, ["`precision` is `99`", "column `c`"]),
    ] {
        assert_says(&refusal(&format!(r#"{{"type":"struct","fields":{fields}}}"#)), &parts);
    }
}

#[test]
fn list_items_are_shorthand_or_tagged_scalars() {
    let of = |item| ColumnType::List { item: Box::new(item) };
    assert_eq!(column(r#"{"type":"list","item":"int32"}"#).column_type, of(ColumnType::Int32));
    assert_eq!(
        column(r#"{"type":"list","item":{"type":"binary"}}"#).column_type,
        of(ColumnType::Binary { blob: false })
    );
    let naive = column(r#"{"type":"list","item":{"type":"timestamp","tz":null,"nullable":true}}"#);
    assert_eq!(naive.column_type, of(ColumnType::Timestamp { utc: false }));

    for item in [
        r#"{"type":"list","item":"int32"}"#,
        r#""list""#,
        r#"{"type":"vector","dim":2}"#,
        r#""blob""#,
        r#"{"type":"binary","blob":true}"#,
        r#""json""#,
    ] {
        assert_says(
            &refusal(&format!(r#"{{"type":"list","item":{item}}}"#)),
            &["a list of ", "is not possible", "scalar"],
        );
    }
    assert_says(&refusal(r#"{"type":"list","item":{"type":"int32","nullable":false}}"#), &["elements", "`nullable`"]);
    assert_says(&refusal(r#""list""#), &["a list needs `item`", r#"{"type": "list", "item": "string"}"#]);
}

#[test]
fn nesting_is_refused_at_any_depth_without_recursion() {
    let depth = 200_000;
    let declaration = format!("{}\"int32\"{}", r#"{"type":"list","item":"#.repeat(depth), "}".repeat(depth));
    refused(&format!(r#"{{"id":"string","c":{declaration}}}"#));
}

#[test]
fn id_is_a_plain_required_string() {
    for id in [r#""string""#, r#"{"type":"string","nullable":false,"large":false}"#, r#"{"type":"string"}"#] {
        let schema = parse(&format!(r#"{{"id":{id}}}"#));
        assert!(!schema.columns()[0].nullable);
    }
    let refusal = |json: &str| refused(json).to_string();
    assert_says(&refusal(r#"{"id":{"type":"string","nullable":true}}"#), &["column `id`", "cannot be nullable"]);
    assert_says(&refusal(r#"{"id":{"type":"string","large":true}}"#), &["plain `string`", "string(large)"]);
    assert_says(&refusal(r#"{"id":"int64"}"#), &["column `id`", "not int64"]);
    assert_says(&refusal("{}"), &["column `id` is missing", r#"`"id": "string"`"#]);
    assert_says(&refusal(r#"{"Id":"string"}"#), &["column `id` is missing (`Id` is spelled differently)"]);
}

#[test]
fn names_follow_the_rules() {
    let name =
        |name: &str| SchemaSpec::parse(&format!(r#"{{"id":"string",{}:"bool"}}"#, serde_json::Value::from(name)));
    for legal in ["a", "größe", "a b", "a-b", "1", "`", "\"", "a_", &"é".repeat(255)] {
        assert_eq!(name(legal).unwrap().names(), ["id", legal]);
    }
    for (illegal, part) in [
        ("", "1 to 255 characters"),
        (&"x".repeat(256), "this one has 256"),
        ("_rowid", "call it `rowid`"),
        ("__", "reserved"),
        ("a.b", "call it `a_b`"),
        ("a\nb", "U+000A"),
        ("a\u{85}", "U+0085"),
        ("ID", "differs from `id` only by case"),
        ("id", "declared twice"),
    ] {
        let error = name(illegal).unwrap_err();
        assert_eq!(error.column(), Some(illegal));
        assert_says(&error.to_string(), &[part]);
    }
    assert_says(&refused(r#"{"id":"string","ä":"bool","Ä":"bool"}"#).to_string(), &["`Ä`", "`ä`"]);
}

#[test]
fn at_most_1024_columns() {
    let of = |count: usize| {
        let names = (1..count).map(|n| format!(r#","c{n}":"bool""#));
        format!(r#"{{"id":"string"{}}}"#, names.collect::<String>())
    };
    assert_eq!(parse(&of(1_024)).columns().len(), 1_024);
    assert_says(&refused(&of(1_025)).to_string(), &["1025 columns", "at most 1024"]);
}

#[test]
fn repeated_and_unknown_keys_are_refused() {
    assert_says(&refusal(r#"{"type":"int32","type":"int64"}"#), &["`type` is given twice"]);
    assert_says(
        &refusal(r#"{"type":"int32","nulable":true}"#),
        &["unknown option `nulable` of `int32`", "did you mean `nullable`?"],
    );
    assert_says(&refusal(r#"{"type":"string","dim":3}"#), &["unknown option `dim`", "`large`"]);
    assert_says(&refusal(r#"{"typ":"string"}"#), &["`type` is missing", "by `typ`?"]);
    assert_says(&refusal(r#"{"dim":3}"#), &["`type` is missing; declare"]);
}

#[test]
fn unknown_types_get_a_suggestion() {
    assert_says(&refusal(r#""sting""#), &["unknown type `sting`, did you mean `string`?", "`timestamp`", "`vector`"]);
    assert_says(&refusal(r#""Int32""#), &["did you mean `int32`?"]);
    assert_says(&refusal(r#""float""#), &["did you mean `float64`?"]);
    assert_says(&refusal(r#""str""#), &["did you mean `string`?"]);
    assert_says(&refusal(r#""qqqqqqq""#), &["unknown type `qqqqqqq`; the types are"]);
}

#[test]
fn options_of_the_wrong_json_type_are_named() {
    assert_says(&refusal(r#"{"type":"string","large":1}"#), &["`large` must be true or false, got `1`"]);
    assert_says(&refusal(r#"{"type":"string","nullable":"no"}"#), &["`nullable` must be true or false, got a string"]);
    assert_says(&refusal(r#"{"type":7}"#), &["`type` must be a string, got `7`"]);
    assert_says(&refusal(r#"{"type":"vector","dim":"3"}"#), &["`dim` must be a whole number, got a string"]);
    assert_says(&refusal(r#"{"type":"vector","dim":3.0}"#), &["`dim` must be a whole number, got `3.0`"]);
    assert_says(&refusal(r#"{"type":"vector","dim":true}"#), &["got a truth value"]);
    assert_says(&refusal(r#"{"type":"vector","dim":3,"metric":null}"#), &["`metric` must be a string, got null"]);
    assert_says(&refusal(r#"{"type":"timestamp","tz":0}"#), &["`tz` must be a string, got `0`"]);
    assert_says(&refusal("[]"), &["expected a type name or an object with `type`, got a list"]);
    assert_says(&refusal("null"), &["got null"]);
}

#[test]
fn option_values_are_checked() {
    assert_says(&refusal(r#""vector""#), &["a vector needs `dim`", r#"{"type": "vector", "dim": 768}"#]);
    for dim in ["0", "-1", "65537", "4294967297", "99999999999999999999"] {
        assert_says(&refusal(&format!(r#"{{"type":"vector","dim":{dim}}}"#)), &["1 to 65536", &format!("`{dim}`")]);
    }
    assert_says(
        &refusal(r#"{"type":"vector","dim":3,"metric":"cosin"}"#),
        &["unknown `metric` `cosin`, did you mean `cosine`?"],
    );
    assert_says(
        &refusal(r#"{"type":"vector","dim":3,"dtype":"bfloat16"}"#),
        &["unknown `dtype` `bfloat16`", "possible: `float32`"],
    );
    assert_says(&refusal(r#"{"type":"timestamp","unit":"ms"}"#), &["unknown `unit` `ms`", "`us`"]);
    assert_says(&refusal(r#"{"type":"timestamp","tz":"Europe/Berlin"}"#), &["unknown `tz`", "`UTC`, `null`"]);
    assert_says(&refusal(r#"{"type":"timestamp","tz":"null"}"#), &["unknown `tz` `null`"]);
}

#[test]
fn text_that_is_no_declaration_is_refused() {
    for (json, part) in [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[1]", "got a list"),
        ("\"id\"", "got a string"),
        ("3", "got a number"),
    ] {
        assert_says(&refused(json).to_string(), &["schema: ", part]);
    }
}

#[test]
fn declaration_order_is_kept() {
    assert_eq!(parse(r#"{"z":"bool","id":"string","a":"bool"}"#).names(), ["z", "id", "a"]);
}

#[test]
fn canonical_form_spells_out_defaults() {
    let schema = parse(
        r#"{"id":"string","v":{"type":"vector","dim":2,"metric":"euclidean"},"t":"timestamp","b":"blob","l":{"type":"list","item":"string"}}"#,
    );
    assert_eq!(
        schema.to_json(),
        concat!(
            r#"{"id":{"type":"string","large":false,"nullable":false},"#,
            r#""v":{"type":"vector","dim":2,"metric":"l2","dtype":"float32","nullable":true},"#,
            r#""t":{"type":"timestamp","unit":"us","tz":"UTC","nullable":true},"#,
            r#""b":{"type":"binary","blob":true,"nullable":true},"#,
            r#""l":{"type":"list","item":{"type":"string","large":false},"nullable":true}}"#
        )
    );
}

#[test]
fn meaning_decides_equality() {
    let one = parse(r#"{"id":"string","v":{"type":"vector","dim":2,"metric":"euclidean"},"b":"blob"}"#);
    let same = parse(
        r#"{"b":{"type":"binary","blob":true,"nullable":true},"v":{"dim":2,"type":"vector"},"id":{"type":"string","nullable":false}}"#,
    );
    assert_eq!(one.diff(&same), None);
    assert_eq!(one, same);
}

#[test]
fn diff_lists_added_missing_and_changed() {
    let declared = parse(r#"{"id":"string","new":"bool","score":"float32","v":{"type":"vector","dim":2},"n":"int32"}"#);
    let stored = parse(
        r#"{"id":"string","old":"blob","score":"float64","v":{"type":"vector","dim":2,"metric":"dot"},"n":{"type":"int32","nullable":false}}"#,
    );
    assert_ne!(declared, stored);
    assert_eq!(
        declared.diff(&stored).unwrap(),
        "added `new` (bool nullable); missing `old` (binary(blob) nullable); changed \
         `score` (declared float32 nullable, stored float64 nullable), \
         `v` (declared vector(2) nullable, stored vector(2, dot) nullable), \
         `n` (declared int32 nullable, stored int32 not null)"
    );
    assert_ne!(declared, parse(r#"{"id":"string"}"#));
    assert_eq!(
        parse(r#"{"id":"string"}"#).diff(&parse(r#"{"id":"string","x":"bool"}"#)).unwrap(),
        "missing `x` (bool nullable)"
    );
}

#[test]
fn projections_put_id_first_and_leave_blobs_out() {
    let schema = parse(r#"{"z":"bool","video":"blob","id":"string","a":"binary"}"#);
    let resolve = |columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
        schema.resolve_projection(Some(&columns))
    };
    assert_eq!(schema.default_projection(), ["id", "z", "a"]);
    assert_eq!(schema.resolve_projection(None).unwrap(), ["id", "z", "a"]);
    assert_eq!(resolve(&[]).unwrap(), ["id"]);
    assert_eq!(resolve(&["video", "id", "a", "video"]).unwrap(), ["id", "video", "a"]);
    let error = resolve(&["vidoe"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown column `vidoe`, did you mean `video`?; the columns are `z`, `video`, `id`, `a`"
    );
    assert_eq!(error.code(), "query-column");
}

#[test]
fn columns_are_found_by_exact_name() {
    let schema = parse(r#"{"id":"string","User":"string"}"#);
    assert_eq!(schema.column("User").unwrap().0, 1);
    assert!(schema.column("user").is_none());
    assert_eq!(schema.suggest("user").as_deref(), Some("User"));
    assert_eq!(schema.suggest("video"), None);
}

fn scalar_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        any::<bool>().prop_map(|large| ColumnType::String { large }),
        prop::sample::select(vec![
            ColumnType::Int8,
            ColumnType::Int16,
            ColumnType::Int32,
            ColumnType::Int64,
            ColumnType::UInt8,
            ColumnType::UInt16,
            ColumnType::UInt32,
            ColumnType::UInt64,
            ColumnType::Float16,
            ColumnType::Float32,
            ColumnType::Float64,
            ColumnType::Bool,
            ColumnType::Date,
            ColumnType::Binary { blob: false },
        ]),
        any::<bool>().prop_map(|utc| ColumnType::Timestamp { utc }),
        (1u8..=38)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| ColumnType::Decimal { precision, scale }),
    ]
}

const NAMES: &str = r#"[^_.\pC][^.\pC]{0,20}"#;

fn struct_type() -> impl Strategy<Value = ColumnType> {
    let fields = prop::collection::vec((NAMES, scalar_type(), any::<bool>()), 1..4);
    fields.prop_filter_map("names differ only by case", |fields| {
        let mut seen = std::collections::HashSet::new();
        let distinct = fields.iter().all(|(name, ..)| seen.insert(name.to_lowercase()));
        let field = |(name, column_type, nullable)| ColumnSpec { name, column_type, nullable };
        distinct.then(|| ColumnType::Struct { fields: Fields(fields.into_iter().map(field).collect()) })
    })
}

fn column_type() -> impl Strategy<Value = ColumnType> {
    let metric = prop_oneof![Just(Metric::L2), Just(Metric::Cosine), Just(Metric::Dot)];
    let dtype = prop_oneof![Just(VectorType::Float32), Just(VectorType::Float16)];
    prop_oneof![
        4 => scalar_type(),
        1 => Just(ColumnType::Binary { blob: true }),
        1 => Just(ColumnType::Json),
        1 => (1u32..=65_536, metric, dtype)
            .prop_map(|(dim, metric, dtype)| ColumnType::Vector { dim, metric, dtype }),
        1 => struct_type(),
        1 => prop_oneof![scalar_type(), struct_type()].prop_map(|item| ColumnType::List { item: Box::new(item) }),
    ]
}

fn schema() -> impl Strategy<Value = SchemaSpec> {
    let others = prop::collection::vec((NAMES, column_type(), any::<bool>()), 0..12);
    (others, any::<prop::sample::Index>()).prop_filter_map("names differ only by case", |(others, at)| {
        let mut columns: Vec<ColumnSpec> = others
            .into_iter()
            .map(|(name, column_type, nullable)| ColumnSpec { name, column_type, nullable })
            .collect();
        let id = ColumnSpec { name: "id".into(), column_type: ColumnType::String { large: false }, nullable: false };
        columns.insert(at.index(columns.len() + 1), id);
        SchemaSpec::new(columns).ok()
    })
}

proptest! {
    #[test]
    fn canonical_form_is_lossless(schema in schema()) {
        let read = SchemaSpec::parse(&schema.to_json()).unwrap();
        prop_assert_eq!(read.columns(), schema.columns());
        prop_assert_eq!(read.diff(&schema), None);
        prop_assert_eq!(read.to_json(), schema.to_json());
    }

    #[test]
    fn order_does_not_change_the_meaning(schema in schema()) {
        let reversed = SchemaSpec::new(schema.columns().iter().rev().cloned().collect()).unwrap();
        prop_assert_eq!(reversed.diff(&schema), None);
    }

    #[test]
    fn descriptions_tell_types_apart(one in column_type(), other in column_type()) {
        prop_assert_eq!(one.describe() == other.describe(), one == other);
    }

    #[test]
    fn any_text_is_read_or_refused(json in r#"\{"id":"string"(,"[a-c]":(\{"?[a-z]{0,4}"?:?.{0,8}\}|"[a-z]{0,6}"))?.{0,4}"#) {
        let _ = SchemaSpec::parse(&json);
    }
}
