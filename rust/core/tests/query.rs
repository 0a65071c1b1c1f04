//! Filters, pages and order count live rows only.

use lance_context_spec::{Error, Filter, Query, ReadMode, Value};

use crate::support::{Place, list, rows, run, sql};

fn where_(expression: &str) -> Query {
    Query { filter: sql(expression), read: Some(ReadMode::Latest), ..Query::default() }
}

#[test]
fn a_row_whose_newest_version_stops_matching_is_gone_in_every_tier() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        for stage in 0..3 {
            store.add(rows(&[("a", 1)])).await.unwrap();
            if stage >= 1 {
                store.flush().await.unwrap();
            }
            if stage >= 2 {
                store.merge().await.unwrap();
            }
            assert_eq!(list(&store, where_("n = 1")).await.len(), 2);
            store.add(rows(&[("a", 9)])).await.unwrap();
            assert_eq!(list(&store, where_("n = 1")).await, [("b".to_owned(), 1)], "stage {stage}, newest in memory");
            store.flush().await.unwrap();
            assert_eq!(list(&store, where_("n = 1")).await, [("b".to_owned(), 1)], "stage {stage}, newest sealed");
            assert_eq!(store.count(sql("n = 1"), None).await.unwrap(), 1);
        }
    });
}

#[test]
fn a_limit_counts_live_rows_and_pages_cover_everything_once() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        let ids: Vec<String> = (0..100).map(|i| format!("row-{i:03}")).collect();
        for round in 0..3 {
            let batch: Vec<(&str, i64)> = ids.iter().map(|id| (id.as_str(), round)).collect();
            store.add(rows(&batch)).await.unwrap();
            store.flush().await.unwrap();
        }
        let limited = Query { limit: Some(50), ..where_("n = 2") };
        assert_eq!(list(&store, limited).await.len(), 50);
        assert!(list(&store, where_("n < 2")).await.is_empty());

        let mut by_offset = Vec::new();
        let mut by_key: Vec<(String, i64)> = Vec::new();
        for page in 0..15 {
            let query = Query { limit: Some(7), offset: page * 7, ..Query::default() };
            by_offset.extend(list(&store, query).await);
            let after = by_key.last().map(|(id, _)| id.clone());
            by_key.extend(list(&store, Query { limit: Some(7), after, ..Query::default() }).await);
        }
        let wanted: Vec<_> = ids.iter().map(|id| (id.clone(), 2)).collect();
        assert_eq!(by_offset, wanted);
        assert_eq!(by_key, wanted);
        assert!(list(&store, Query { offset: 1_000, ..Query::default() }).await.is_empty());
        assert!(list(&store, Query { limit: Some(0), ..Query::default() }).await.is_empty());
    });
}

#[test]
fn parameters_bind_by_name_and_each_must_fit() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        store.add(rows(&[("O'Brien", 1), ("x' OR 1=1 --", 2)])).await.unwrap();
        let filter = |expression: &str, params: Vec<(&str, Value<'static>)>| {
            let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let filter = Some(Filter::Sql { expression: expression.to_owned(), params });
            Query { filter, read: Some(ReadMode::Latest), ..Query::default() }
        };
        for (id, n) in [("O'Brien", 1), ("x' OR 1=1 --", 2)] {
            let found = list(&store, filter("id = $who", vec![("who", Value::Str(id.into()))])).await;
            assert_eq!(found, [(id.to_owned(), n)]);
        }
        let found = list(&store, filter("n > $least AND n < 10", vec![("least", Value::Int(1))])).await;
        assert_eq!(found.len(), 1);
        let missing = store.list(filter("n = $x", vec![])).await.unwrap_err();
        assert!(matches!(missing, Error::QueryParameter { .. }), "{missing}");
        let unused = store.list(filter("n = 1", vec![("x", Value::Int(1))])).await.unwrap_err();
        assert!(matches!(unused, Error::QueryParameter { .. }), "{unused}");
        let mapping = Filter::Equals(vec![("n".into(), Value::Int(2))]);
        let query = Query { filter: Some(mapping), read: Some(ReadMode::Latest), ..Query::default() };
        assert_eq!(list(&store, query).await.len(), 1);
    });
}

#[test]
fn a_filter_that_cannot_be_understood_is_a_query_error() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        store.add(rows(&[("a", 1)])).await.unwrap();
        let error = store.list(where_("nn = 1")).await.unwrap_err();
        assert!(matches!(&error, Error::QueryColumn { column, .. } if column == "nn"), "{error}");
        for expression in ["n", "n = ", "n > 'abc'", "n + 1", "count(n) > 1", "no_such(n)", "N = 1", "data"] {
            let error = store.list(where_(expression)).await.unwrap_err();
            assert_eq!(error.kind(), lance_context_spec::Kind::Query, "{expression}: {error}");
            let error = store.count(sql(expression), None).await.unwrap_err();
            assert_eq!(error.kind(), lance_context_spec::Kind::Query, "{expression}: {error}");
        }
        let columns = Query { columns: Some(vec!["m".into()]), ..Query::default() };
        assert!(matches!(store.list(columns).await, Err(Error::QueryColumn { .. })));
    });
}

#[test]
fn a_filter_too_deep_to_plan_is_refused_and_a_long_list_is_not() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        store.add(rows(&[("a", 1), ("b", -1)])).await.unwrap();
        for terms in [50, 100, 2_000, 30_000] {
            let chain = (0..terms).map(|n| format!("n = {n}")).collect::<Vec<_>>().join(" OR ");
            let nested = format!("{}n = 1{}", "(".repeat(terms), ")".repeat(terms));
            match store.count(sql(&chain), Some(ReadMode::Latest)).await {
                Ok(found) => assert_eq!((terms <= 100, found), (true, 1)),
                Err(e) => assert_eq!((terms > 100, e.kind()), (true, lance_context_spec::Kind::Query), "{e}"),
            }
            // The parser has a limit of its own for parentheses.
            if let Err(e) = store.count(sql(&nested), Some(ReadMode::Latest)).await {
                assert_eq!(e.kind(), lance_context_spec::Kind::Query, "{e}");
            }
        }
        let list = (-5_000..0).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let found = list_in(&store, &list).await;
        assert_eq!(found, [("b".to_owned(), -1)]);
    });
}

async fn list_in(store: &lance_context_core::GenericStore, values: &str) -> Vec<(String, i64)> {
    list(store, where_(&format!("n IN ({values})"))).await
}
