//! The item log in the engine: check and append as one, folds at every stage, several writers, questions over all
//! items.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::take_record_batch;
use lance_context_core::DatagenStore;
use lance_context_spec::datagen::{
    Cell, Event, FailureNote, FieldOp, FieldWrite, FoldedItem, Intent, ItemId, Status, StepPosition, StreamWriter,
};
use lance_context_spec::{Filter, Kind, OpenOptions, ReadMode, Value};

use crate::support::{Place, run, spawn, sql};

fn options() -> OpenOptions {
    OpenOptions { maintenance: None, read: ReadMode::Latest, ..OpenOptions::default() }
}

fn of(writer_id: &str) -> OpenOptions {
    OpenOptions { writer_id: Some(writer_id.to_owned()), ..options() }
}

async fn open(place: &Place) -> DatagenStore {
    DatagenStore::open(&place.uri(), options()).await.unwrap()
}

fn id(text: &str) -> ItemId {
    ItemId::parse(text).unwrap()
}

fn writer(item: &str, epoch: &str) -> StreamWriter {
    StreamWriter::new(id(item), "run", epoch).unwrap()
}

fn field(name: &str, op: FieldOp, value: Cell) -> FieldWrite {
    FieldWrite { field_name: name.into(), field_type: value.kind().into(), codec_version: 0, op, value }
}

fn set(name: &str, value: i64) -> Vec<FieldWrite> {
    vec![field(name, FieldOp::Set, Cell::Int(value))]
}

fn step(name: &str) -> StepPosition {
    StepPosition { step_name: name.into(), ..StepPosition::root() }.leaf()
}

trait Leaf {
    fn leaf(self) -> Self;
}

impl Leaf for StepPosition {
    fn leaf(mut self) -> Self {
        self.step_kind = lance_context_spec::datagen::StepKind::Leaf;
        self
    }
}

async fn created(log: &DatagenStore, item: &str, tags: Option<&str>) -> StreamWriter {
    let mut stream = writer(item, "e0");
    let event = stream.item_created(tags.map(str::to_owned), None, None, 1).unwrap();
    log.append(vec![event], Intent::Open).await.unwrap();
    stream
}

async fn append(log: &DatagenStore, events: Vec<Event>) -> (usize, usize) {
    let appended = log.append(events, Intent::Append).await.unwrap();
    (appended.count, appended.new)
}

async fn fold(log: &DatagenStore, item: &str) -> FoldedItem {
    log.fold_item(&id(item), false).await.unwrap().unwrap()
}

fn int(item: &FoldedItem, name: &str) -> i64 {
    match &item.fields[name].newest().unwrap().cell {
        Cell::Int(value) => *value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_item_folds_the_same_at_every_stage() {
    run(async {
        let place = Place::new();
        let log = open(&place).await;
        let mut stream = created(&log, "a", None).await;
        let draft = stream.step_completed(&step("draft"), set("n", 1), None, 2).unwrap();
        assert_eq!(append(&log, draft.clone()).await, (2, 2));
        assert_eq!(append(&log, draft).await, (2, 0), "the same events again change nothing");
        let done = stream.item_terminal(Status::Completed, None, 3).unwrap();
        append(&log, vec![done]).await;
        let first = fold(&log, "a").await;
        assert_eq!((first.status, int(&first, "n"), first.last_item_seq), (Status::Completed, 1, 4));
        log.flush().await.unwrap();
        assert_eq!(fold(&log, "a").await, first);
        log.merge().await.unwrap();
        assert_eq!(fold(&log, "a").await, first);
        log.close().await.unwrap();
        let again =
            DatagenStore::open_existing(&place.uri(), OpenOptions { read_only: true, ..options() }).await.unwrap();
        assert_eq!(fold(&again, "a").await, first);
        assert_eq!(again.fold_item(&id("b"), false).await.unwrap(), None);
        let refused = again.append(vec![], Intent::Checkpoint).await.unwrap_err();
        assert_eq!(refused.code(), "read-only");
    });
}

#[test]
fn refusals_write_nothing() {
    run(async {
        let place = Place::new();
        let log = open(&place).await;
        let mut stream = created(&log, "a", None).await;
        let refused = |events: Vec<Event>, intent| {
            let log = &log;
            async move { log.append(events, intent).await.unwrap_err() }
        };
        let again = writer("a", "e1").item_created(None, None, None, 1).unwrap();
        assert_eq!(refused(vec![again], Intent::Open).await.code(), "item-exists");
        let mut unknown = writer("b", "e0");
        unknown.item_created(None, None, None, 1).unwrap();
        let started = unknown.step_started(&step("x"), None, 1).unwrap();
        assert_eq!(refused(vec![started], Intent::Append).await.code(), "item-not-found");
        let skipped = stream.step_completed(&step("one"), set("n", 1), None, 2).unwrap();
        let gap = stream.step_completed(&step("two"), set("n", 2), None, 2).unwrap();
        assert_eq!(refused(gap.clone(), Intent::Checkpoint).await.code(), "stream-gap");
        let both: Vec<Event> = skipped.iter().chain(&gap).cloned().collect();
        assert_eq!(refused(both.clone(), Intent::Checkpoint).await.code(), "invalid-event");
        assert_eq!(log.item_events(&id("a")).await.unwrap().len(), 1);
        assert_eq!(append(&log, both).await, (4, 4));
        let mut other = skipped[0].clone();
        other.field = set("n", 9).pop();
        assert_eq!(refused(vec![other], Intent::Append).await.kind(), Kind::Conflict);
        let end = stream.item_terminal(Status::Filtered, None, 3).unwrap();
        append(&log, vec![end]).await;
        let mut late =
            StreamWriter::resuming(&FoldedItem { status: Status::Running, ..fold(&log, "a").await }, "run", "e9")
                .unwrap();
        let started = late.step_started(&step("x"), None, 4).unwrap();
        assert_eq!(refused(vec![started], Intent::Append).await.code(), "item-terminal");
    });
}

/// What a head that was kept says is never the reason of a refusal when the log says otherwise.
#[test]
fn a_resume_fences_the_stream_before_it() {
    run(async {
        let place = Place::new();
        let log = open(&place).await;
        let mut zombie = created(&log, "a", None).await;
        append(&log, zombie.step_completed(&step("one"), set("n", 1), None, 2).unwrap()).await;
        let folded = fold(&log, "a").await;
        let mut resumed = StreamWriter::resuming(&folded, "run", "e1").unwrap();
        let mut twin = StreamWriter::resuming(&folded, "run", "e2").unwrap();
        append(&log, resumed.step_completed(&step("two"), set("n", 2), None, 3).unwrap()).await;
        for stream in [&mut zombie, &mut twin] {
            let late = stream.step_completed(&step("three"), set("n", 3), None, 4).unwrap();
            let refused = log.append(late, Intent::Checkpoint).await.unwrap_err();
            assert_eq!((refused.code(), refused.retryable()), ("stream-fenced", false));
        }
        append(&log, resumed.step_completed(&step("four"), set("n", 4), None, 5).unwrap()).await;
        let item = fold(&log, "a").await;
        assert_eq!((int(&item, "n"), item.last_attempt, item.fenced.len(), item.problems.len()), (4, 1, 0, 0));
    });
}

#[test]
fn two_handles_take_turns_and_lose_nothing() {
    run(async {
        let place = Place::new();
        let (one, two) = (open(&place).await, open(&place).await);
        let mut a = created(&one, "a", None).await;
        let mut b = created(&two, "b", None).await;
        for n in 0..6 {
            let position = StepPosition { iteration: vec![n], ..step("draft") };
            append(
                &one,
                a.step_completed(&position, vec![field("v", FieldOp::Append, Cell::Int(n))], None, 2).unwrap(),
            )
            .await;
            append(
                &two,
                b.step_completed(&position, vec![field("v", FieldOp::Append, Cell::Int(n))], None, 2).unwrap(),
            )
            .await;
        }
        for log in [&one, &two] {
            for item in ["a", "b"] {
                let item = fold(log, item).await;
                let values: Vec<_> = item.fields["v"].values.iter().map(|value| value.cell.clone()).collect();
                assert_eq!(values, (0..6).map(Cell::Int).collect::<Vec<_>>());
                assert_eq!(item.problems, vec![]);
            }
        }
    });
}

/// The head of an item that another writer went on with is behind, in the handle that created it.
#[test]
fn an_item_goes_from_one_writer_to_another_and_back() {
    run(async {
        let place = Place::new();
        let one = DatagenStore::open(&place.uri(), of("one")).await.unwrap();
        let two = DatagenStore::open(&place.uri(), of("two")).await.unwrap();
        created(&one, "a", None).await;
        for n in 0..4 {
            let log = if n % 2 == 0 { &two } else { &one };
            let mut stream = StreamWriter::resuming(&fold(log, "a").await, "run", &format!("r{n}")).unwrap();
            append(log, stream.step_completed(&step(&format!("s{n}")), set("n", n), None, 2).unwrap()).await;
            if n == 2 {
                log.flush().await.unwrap();
                log.merge().await.unwrap();
            }
        }
        for log in [&one, &two] {
            let item = fold(log, "a").await;
            assert_eq!((int(&item, "n"), item.completed.len(), item.last_attempt), (3, 4, 4));
            assert_eq!((item.fenced.len(), item.problems.len()), (0, 0));
        }
    });
}

#[test]
fn many_items_at_once_share_writes() {
    run(async {
        let place = Place::new();
        let log = Arc::new(open(&place).await);
        let tasks: Vec<_> = (0..100)
            .map(|n| {
                let log = Arc::clone(&log);
                spawn(async move {
                    let mut stream = created(&log, &format!("i{n}"), None).await;
                    for at in 0..3 {
                        let position = StepPosition { iteration: vec![at], ..step("s") };
                        append(&log, stream.step_completed(&position, set("n", at), None, 2).unwrap()).await;
                    }
                    append(&log, vec![stream.item_terminal(Status::Completed, None, 3).unwrap()]).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let overview = log.overview().await.unwrap();
        assert_eq!((overview.items, overview.completed, overview.running), (100, 100, 0));
        assert_eq!(overview.completed_steps["s"], 300);
        let entries = log.stats().await.unwrap().wal_entries;
        assert!(entries < 400, "500 appends came to {entries} writes");
    });
}

async fn three_items(log: &DatagenStore) {
    let mut good = created(log, "a", Some(r#"{"lang":"en","n":1}"#)).await;
    append(log, vec![good.item_terminal(Status::Completed, None, 5).unwrap()]).await;
    let mut bad = created(log, "b/split:0", Some(r#"{"lang":"de","n":2}"#)).await;
    let failure = FailureNote { error_type: "ValueError".into(), error_dump: Some("no".into()), traceback: None };
    append(log, vec![bad.item_failed(&step("draft"), failure, None, 6).unwrap()]).await;
    created(log, "b", Some(r#"{"lang":"en"}"#)).await;
}

#[test]
fn questions_over_all_items() {
    run(async {
        let place = Place::new();
        let log = open(&place).await;
        three_items(&log).await;
        for stage in 0..3 {
            let found = |filter: Option<Filter>| {
                let log = &log;
                async move {
                    let items = log.items(filter.as_ref(), None, None).await.unwrap();
                    items.into_iter().map(|item| item.item_id.to_string()).collect::<Vec<_>>()
                }
            };
            assert_eq!(found(None).await, ["a", "b", "b/split:0"]);
            assert_eq!(found(sql("status = 'completed'")).await, ["a"]);
            assert_eq!(found(sql("failed")).await, ["b/split:0"]);
            assert_eq!(found(sql("tags.lang = 'en' AND tags.n IS NULL")).await, ["b"]);
            assert_eq!(found(sql("tags.n >= 2 OR root_item_id = 'a'")).await, ["a", "b/split:0"]);
            assert_eq!(found(sql("parent_item_id = 'b'")).await, ["b/split:0"]);
            let equals = |name: &str, value: Value<'static>| Some(Filter::Equals(vec![(name.to_owned(), value)]));
            assert_eq!(found(equals("tags.lang", Value::Str("de".into()))).await, ["b/split:0"]);
            assert_eq!(found(equals("failed", Value::Bool(false))).await, ["a", "b"]);
            let unknown = log.items(equals("tags.lnag", Value::Null).as_ref(), None, None).await.unwrap_err();
            assert_eq!((unknown.code(), unknown.column()), ("query-column", Some("tags.lnag")));
            assert!(unknown.to_string().contains("did you mean `tags.lang`?"), "{unknown}");
            assert_eq!(log.items(sql("tags.lnag = 'x'").as_ref(), None, None).await.unwrap_err().kind(), Kind::Query);
            let page = log.items(None, Some(1), Some(&id("a"))).await.unwrap();
            assert_eq!(page[0].item_id, id("b"));

            let failed = log.failed_items().await.unwrap();
            assert_eq!((failed.len(), failed[0].failures[0].error_type.as_str()), (1, "ValueError"));
            let asked = ["b", "nobody", "a"].map(id).to_vec();
            assert_eq!(log.pending(asked.clone()).await.unwrap(), ["b", "nobody"].map(id));
            let statuses = log.root_item_statuses(asked).await.unwrap();
            assert_eq!(statuses, [(id("b"), "running".to_owned()), (id("a"), "completed".to_owned())]);
            let overview = log.overview().await.unwrap();
            assert_eq!((overview.items, overview.completed, overview.running, overview.failed), (3, 1, 2, 1));
            assert_eq!(overview.failures_by_error_type["ValueError"].count, 1);

            let tree = log.item_tree(&id("b"), 10, None).await.unwrap();
            assert_eq!((tree.roots.len(), tree.nodes.len(), tree.nodes[&id("b")].children.len()), (1, 2, 1));
            assert_eq!(log.item_tree(&id("nobody"), 10, None).await.unwrap_err().code(), "item-not-found");
            assert_eq!(log.root_events(&id("b")).await.unwrap().len(), 3);
            if stage == 0 {
                log.flush().await.unwrap();
            } else {
                log.merge().await.unwrap();
            }
        }
    });
}

/// A reader that asks again and again gets every event once, whatever is sealed, merged and written by others.
#[test]
fn events_since_a_cursor_are_those_behind_it() {
    run(async {
        let place = Place::new();
        let one = DatagenStore::open(&place.uri(), of("one")).await.unwrap();
        let two = DatagenStore::open(&place.uri(), of("two")).await.unwrap();
        let reader =
            DatagenStore::open_existing(&place.uri(), OpenOptions { read_only: true, ..options() }).await.unwrap();
        let (mut seen, mut cursor, mut sent) = (BTreeSet::new(), None, 0);
        for n in 0..6 {
            for log in [&one, &two] {
                let name = if std::ptr::eq(log, &raw const one) { "one" } else { "two" };
                let mut stream = created(log, &format!("{name}{n}"), None).await;
                append(log, stream.step_completed(&step("s"), set("n", 1), None, 2).unwrap()).await;
                sent += 3;
            }
            match n {
                1 => one.flush().await.unwrap(),
                2 => two.flush().await.unwrap(),
                3 => drop(one.merge().await.unwrap()),
                4 => one.close().await.unwrap(),
                _ => {}
            }
            loop {
                let page = reader.events_since(cursor.as_deref()).await.unwrap();
                for (next, event) in page.events {
                    assert!(seen.insert(event.event_id.clone()), "{} came twice", event.event_id);
                    cursor = Some(next);
                }
                if page.next.is_none() {
                    break;
                }
                assert_eq!(page.next, cursor);
            }
            assert_eq!(seen.len(), sent, "round {n}");
            if n == 4 {
                break;
            }
        }
        assert_eq!(two.events_since(Some("nonsense")).await.unwrap_err().kind(), Kind::Argument);
    });
}

#[test]
fn more_events_than_a_page() {
    run(async {
        let place = Place::new();
        let log = open(&place).await;
        let mut stream = created(&log, "a", None).await;
        let fields = (0..2_500).map(|n| field("v", FieldOp::Append, Cell::Int(n))).collect();
        append(&log, stream.step_completed(&step("s"), fields, None, 2).unwrap()).await;
        let (mut seqs, mut cursor) = (Vec::new(), None);
        loop {
            let page = log.events_since(cursor.as_deref()).await.unwrap();
            seqs.extend(page.events.iter().map(|(_, event)| event.item_seq));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seqs, (1..=2_502).collect::<Vec<_>>());
    });
}

/// Rows that are no events, more than a page of them, hide none of those behind them.
#[test]
fn a_page_of_unreadable_rows_leads_on() {
    run(async {
        let place = Place::new();
        let log = open(&place).await;
        let mut stream = created(&log, "a", None).await;
        let storage = log.storage();
        let columns = storage.schema().names();
        let row = storage.find("item_id", "a", columns, None).await.unwrap().remove(0);
        let noise = take_record_batch(&row, &UInt32Array::from(vec![0; 2_200])).unwrap();
        let texts =
            |text: fn(usize) -> String| Arc::new(StringArray::from_iter_values((0..2_200).map(text))) as ArrayRef;
        let schema = noise.schema();
        let arrays = schema.fields().iter().zip(noise.columns()).map(|(field, column)| match field.name().as_str() {
            "event_id" => texts(|n| format!("noise {n}")),
            "event_type" => texts(|_| "NOISE".to_owned()),
            "log_number" => Arc::new(Int64Array::from_iter_values(2..2_202)),
            _ => Arc::clone(column),
        });
        let noise = RecordBatch::try_new(Arc::clone(&schema), arrays.collect()).unwrap();
        storage.add(noise).await.unwrap();
        let event = stream.step_started(&step("x"), None, 9).unwrap();
        // The log goes on counting where it was; a claim starts anew above.
        log.close().await.unwrap();
        let log = open(&place).await;
        append(&log, vec![event.clone()]).await;
        let first = log.events_since(None).await.unwrap();
        let noise = log.events_since(first.next.as_deref()).await.unwrap();
        let rest = log.events_since(noise.next.as_deref()).await.unwrap();
        assert_eq!([&first, &noise, &rest].map(|page| page.events.len()), [1, 0, 1]);
        assert_eq!((&rest.events[0].1.event_id, rest.next), (&event.event_id, None));
        let item = fold(&log, "a").await;
        assert_eq!((item.problems.len(), item.last_item_seq), (2_200, 2));
    });
}

#[test]
fn blobs_come_when_they_are_asked_for() {
    run(async {
        let place = Place::new();
        let log = open(&place).await;
        let mut stream = created(&log, "a", None).await;
        let picture = vec![7; 100_000];
        let fields = vec![field("picture", FieldOp::Set, Cell::blob(picture.clone())), set("n", 1).remove(0)];
        append(&log, stream.step_completed(&step("s"), fields, None, 2).unwrap()).await;
        for stage in 0..3 {
            let item = fold(&log, "a").await;
            let value = item.fields["picture"].newest().unwrap();
            assert!(value.cell.is_unloaded(), "stage {stage}");
            assert_eq!(log.get_blob(&value.event_id).await.unwrap(), picture);
            let loaded = log.fold_item(&id("a"), true).await.unwrap().unwrap();
            assert_eq!(loaded.fields["picture"].newest().unwrap().cell, Cell::blob(picture.clone()));
            let other = item.fields["n"].newest().unwrap().event_id.clone();
            for missing in [other.as_str(), "nobody"] {
                assert_eq!(log.get_blob(missing).await.unwrap_err().code(), "event-not-found");
            }
            if stage == 0 {
                log.flush().await.unwrap();
            } else {
                log.merge().await.unwrap();
            }
        }
    });
}
