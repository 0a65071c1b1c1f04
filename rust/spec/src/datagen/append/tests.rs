use std::collections::HashMap;

use super::super::testing::{Write, append, foreign, leaf, set, stored, writer};
use super::super::{
    Cell, DamagedEvent, Event, EventType, FieldWrite, FoldState, Head, ItemId, StepPosition, Stored, StreamWriter,
    event_id,
};
use super::{Intent, Plan, check_batch, lookups};
use crate::{Error, Kind, Result};

/// A log in memory, which appends as a store does.
#[derive(Default)]
struct Log {
    heads: HashMap<ItemId, Head>,
    events: HashMap<String, Stored>,
}

impl Log {
    fn write(&mut self, events: &[Event], intent: Intent) -> Result<Plan> {
        let looked_up = lookups(events, &self.heads);
        let known: HashMap<String, Stored> =
            looked_up.into_iter().filter_map(|id| Some((id.to_owned(), self.events.get(id)?.clone()))).collect();
        let plan = check_batch(events, intent, &self.heads, &known)?;
        for (event, new) in events.iter().zip(&plan.new) {
            let former = if *new { self.events.insert(event.event_id.clone(), event.clone().into()) } else { None };
            assert_eq!(former, None);
        }
        self.heads.extend(plan.heads.clone());
        for (item, head) in &self.heads {
            assert_eq!(*head, self.state(item).head(), "the head follows from the fold too");
        }
        Ok(plan)
    }

    fn append(&mut self, events: &[Event]) -> Result<Plan> {
        self.write(events, Intent::Append)
    }

    fn state(&self, item: &ItemId) -> FoldState {
        FoldState::new(item.clone(), self.events.values().cloned()).unwrap()
    }

    fn resume(&self, epoch: &str) -> StreamWriter {
        StreamWriter::resuming(&self.state(&super::super::testing::item()).item(), "r", epoch).unwrap()
    }
}

/// A log with ITEM_CREATED and one checkpoint, seqs 1 to 3, and its writer.
fn started() -> (Log, StreamWriter, Vec<Event>) {
    let (mut log, mut writer) = (Log::default(), writer("e"));
    let events = [vec![writer.create()], writer.complete(&leaf("a"), vec![set("x", 1)])].concat();
    assert_eq!(log.append(&events).unwrap().new, [true; 3]);
    (log, writer, events)
}

#[track_caller]
fn refused(log: &mut Log, events: &[Event], kind: Kind, code: &str) -> Error {
    let before = (log.heads.clone(), log.events.len());
    let error = log.append(events).unwrap_err();
    assert_eq!((error.kind(), error.code(), error.retryable()), (kind, code, false), "{error}");
    assert_eq!((log.heads.clone(), log.events.len()), before, "a refused batch changes nothing");
    error
}

#[test]
fn a_stream_goes_on_over_batches() {
    let (mut log, mut writer, _) = started();
    let plan = log.append(&writer.complete(&leaf("b"), vec![append("y", 1)])).unwrap();
    assert_eq!((plan.new_count(), plan.heads.len()), (2, 1));
    log.append(&[writer.fail(&leaf("c")), writer.end()]).unwrap();
}

#[test]
fn fresh_events_are_not_looked_up() {
    let (log, mut writer, events) = started();
    assert!(lookups(&writer.complete(&leaf("b"), vec![set("x", 2)]), &log.heads).is_empty());
    assert_eq!(lookups(&events, &log.heads).len(), 3);
    assert!(lookups(&events, &HashMap::new()).is_empty());
}

#[test]
fn sending_again_changes_nothing_whatever_came_since() {
    let (mut log, mut writer, events) = started();
    assert_eq!(log.append(&events).unwrap(), Plan { new: vec![false; 3], heads: HashMap::new() });
    let later: Vec<Event> = events.iter().cloned().map(|event| Event { event_ts: 99, ..event }).collect();
    assert_eq!(log.append(&later).unwrap().new_count(), 0, "the time does not count");
    let more = writer.complete(&leaf("b"), vec![]);
    let plan = log.append(&[&events[1..], &more, &more].concat()).unwrap();
    assert_eq!(plan.new, [false, false, true, false], "also within a batch");
    log.append(&[writer.end()]).unwrap();
    assert_eq!(log.append(&events).unwrap().new_count(), 0, "after the end");
    let (mut log, _, events) = started();
    log.append(&log.resume("f").complete(&leaf("b"), vec![])).unwrap();
    assert_eq!(log.append(&events).unwrap().new_count(), 0, "after another took over");
}

#[test]
fn blobs_are_compared_by_size_and_checksum() {
    let (mut log, mut writer, _) = started();
    let blob = FieldWrite { value: Cell::blob(b"pixels".to_vec()), ..set("image", 0) };
    let events = writer.complete(&leaf("b"), vec![blob]);
    let unloaded: Vec<Event> = events.iter().cloned().map(Event::without_blob_bytes).collect();
    let error = refused(&mut log, &unloaded, Kind::Row, "invalid-event");
    assert_eq!((error.row(), error.column()), (Some(0), Some("value")));
    log.append(&events).unwrap();
    assert_eq!(log.append(&unloaded).unwrap().new_count(), 0);
    let mut other = events;
    other[0].field.as_mut().unwrap().value = Cell::blob(b"pixelz".to_vec());
    refused(&mut log, &other, Kind::Conflict, "event-conflict");
}

#[test]
fn an_item_begins_with_its_creation() {
    let mut log = Log::default();
    let mut writer = writer("e");
    let created = writer.create();
    refused(&mut log, &writer.complete(&leaf("a"), vec![]), Kind::NotFound, "item-not-found");
    log.append(&[created]).unwrap();
}

#[test]
fn an_item_is_created_once() {
    let (mut log, _, events) = started();
    let other = writer("f").create();
    let error = log.write(std::slice::from_ref(&other), Intent::Open).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::AlreadyExists, "item-exists"));
    assert_eq!(log.write(&events[..1], Intent::Open).unwrap().new, [false], "a lost reply");
    refused(&mut log, &[other], Kind::Fenced, "stream-fenced");
}

#[test]
fn a_lower_attempt_is_fenced() {
    let (mut log, mut zombie, _) = started();
    log.append(&log.resume("f").complete(&leaf("b"), vec![])).unwrap();
    let error = refused(&mut log, &zombie.complete(&leaf("c"), vec![]), Kind::Fenced, "stream-fenced");
    assert!(error.to_string().contains("do not reopen"), "{error}");
    log.append(&log.resume("g").complete(&leaf("d"), vec![])).unwrap();
    let resumed_from = log.heads[zombie.item_id()].last_event_id.clone();
    let lower = Event { resumed_from, ..foreign(1, "h", 6, EventType::StepStarted) };
    refused(&mut log, &[lower], Kind::Fenced, "stream-fenced");
}

#[test]
fn the_same_attempt_with_another_epoch_is_fenced() {
    let (mut log, ..) = started();
    let (mut one, mut other) = (log.resume("f"), log.resume("g"));
    log.append(&one.complete(&leaf("b"), vec![])).unwrap();
    refused(&mut log, &other.complete(&leaf("b"), vec![]), Kind::Fenced, "stream-fenced");
}

#[test]
fn a_resume_of_what_is_no_longer_the_head_is_fenced() {
    let (mut log, mut first, _) = started();
    let mut late = log.resume("f");
    log.append(&first.complete(&leaf("b"), vec![])).unwrap();
    refused(&mut log, &late.complete(&leaf("c"), vec![]), Kind::Fenced, "stream-fenced");
    let unnamed = Event { resumed_from: None, ..foreign(1, "g", 5, EventType::StepStarted) };
    refused(&mut log, &[unnamed], Kind::Fenced, "stream-fenced");
}

#[test]
fn a_resumed_stream_may_end_the_item_at_once() {
    let (mut log, ..) = started();
    log.append(&[log.resume("f").end()]).unwrap();
}

#[test]
fn a_taken_place_is_a_conflict() {
    let (mut log, _, events) = started();
    let taken = foreign(0, "e", 3, EventType::StepStarted);
    assert_ne!(taken.event_id, events[2].event_id);
    refused(&mut log, &[taken], Kind::Conflict, "event-conflict");
}

#[test]
fn the_same_id_with_other_content_is_a_conflict() {
    let (mut log, mut writer, events) = started();
    let other = Event { run_id: "other".to_owned(), ..events[2].clone() };
    refused(&mut log, &[other], Kind::Conflict, "event-conflict");
    let fresh = writer.start(&leaf("f"));
    let twin = Event { run_id: "other".to_owned(), ..fresh.clone() };
    refused(&mut log, &[fresh, twin], Kind::Conflict, "event-conflict");
    let id = events[1].event_id.clone();
    log.events.insert(id.clone(), Stored::Damaged(DamagedEvent { event_id: Some(id), ..DamagedEvent::default() }));
    refused(&mut log, &events[1..2], Kind::Conflict, "event-conflict");
}

#[test]
fn a_gap_is_refused_and_filled_by_sending_what_is_missing() {
    let (mut log, mut writer, _) = started();
    let (lost, next) = (writer.start(&leaf("f")), writer.start(&leaf("g")));
    let error = refused(&mut log, std::slice::from_ref(&next), Kind::State, "stream-gap");
    assert!(error.to_string().contains("next item_seq is 4, not 5"), "{error}");
    refused(&mut log, &[next.clone(), lost.clone()], Kind::State, "stream-gap");
    log.append(&[lost, next]).unwrap();
}

#[test]
fn a_resumed_stream_leaves_no_hole_and_overlaps_nothing() {
    let (mut log, _, events) = started();
    for seq in [3, 5] {
        let resumed_from = Some(events[2].event_id.clone());
        let event = Event { resumed_from, ..foreign(1, "f", seq, EventType::StepStarted) };
        refused(&mut log, &[event], Kind::State, "stream-gap");
    }
}

#[test]
fn a_resumed_stream_may_stand_among_fenced_events_that_it_could_not_see() {
    let (log, mut first, _) = started();
    let item = first.item_id().clone();
    let mut late = log.resume("f");
    // Another shard's events of a stream that lost, which became visible after the resume.
    let mut head = log.heads[&item].clone();
    head.max_seq = 9;
    let heads = HashMap::from([(item.clone(), head)]);
    let events = late.complete(&leaf("b"), vec![set("x", 1)]);
    let plan = check_batch(&events, Intent::Append, &heads, &HashMap::new()).unwrap();
    assert_eq!((plan.new_count(), plan.heads[&item].last_seq, plan.heads[&item].max_seq), (2, 5, 9));
    let more = late.complete(&leaf("c"), vec![]);
    assert!(check_batch(&more, Intent::Append, &plan.heads, &HashMap::new()).is_ok());
    assert!(check_batch(&[first.end()], Intent::Append, &plan.heads, &HashMap::new()).is_err());
}

#[test]
fn the_end_stands_right_behind_the_last_event_and_nothing_behind_the_end() {
    let (mut log, mut writer, events) = started();
    let in_flight = writer.complete(&leaf("b"), vec![set("x", 2)]);
    let end = writer.end();
    refused(&mut log, std::slice::from_ref(&end), Kind::State, "stream-gap");
    log.append(&in_flight).unwrap();
    log.append(std::slice::from_ref(&end)).unwrap();
    let behind = foreign(0, "e", end.item_seq + 1, EventType::StepStarted);
    refused(&mut log, &[behind], Kind::State, "item-terminal");
    let resumed_from = Some(end.event_id.clone());
    let resumed = Event { resumed_from, ..foreign(1, "f", end.item_seq + 1, EventType::StepStarted) };
    refused(&mut log, &[resumed], Kind::State, "item-terminal");
    let (mut log, mut writer, _) = started();
    let batch = [writer.end(), foreign(0, "e", 5, EventType::StepStarted)];
    refused(&mut log, &batch, Kind::State, "item-terminal");
    assert_eq!(log.append(&events).unwrap().new_count(), 0);
}

#[test]
fn a_batch_of_several_items_is_all_or_nothing() {
    let (mut log, mut first, _) = started();
    let child = first.item_id().child("expand", 0).unwrap();
    let mut second = StreamWriter::new(child.clone(), "r", "c").unwrap();
    let (created, gap) = (second.create(), [second.start(&leaf("f")), second.start(&leaf("g"))]);
    let batch = [vec![first.start(&leaf("f")), created.clone()], vec![gap[1].clone()]].concat();
    refused(&mut log, &batch, Kind::State, "stream-gap");
    let batch = [&batch[..2], &gap].concat();
    let plan = log.append(&batch).unwrap();
    assert_eq!((plan.new, plan.heads.len(), plan.heads[&child].last_seq), (vec![true; 4], 2, 3));
}

#[test]
fn events_whose_ids_or_shapes_are_wrong_name_index_and_key() {
    let (_, mut writer, events) = started();
    let good = writer.start(&leaf("f"));
    let field = &events[1];
    let other_checkpoint = "0:e:3".to_owned();
    let cases = [
        ("event_id", Event { event_id: events[0].event_id.clone(), ..good.clone() }),
        ("event_id", Event { item_id: good.item_id.child("s", 0).unwrap(), ..good.clone() }),
        ("checkpoint_id", Event { checkpoint_id: "0:e:5".to_owned(), ..good.clone() }),
        ("checkpoint_id", Event { checkpoint_id: "1:e:4".to_owned(), ..good.clone() }),
        ("checkpoint_id", Event { checkpoint_id: "0:f:4".to_owned(), ..good.clone() }),
        ("event_id", Event { checkpoint_id: other_checkpoint, ..good.clone() }),
        ("event_id", Event { item_seq: 5, ..good.clone() }),
        ("attempt", Event { attempt: -1, ..good.clone() }),
        ("item_seq", Event { item_seq: 0, ..good.clone() }),
        ("run_id", Event { run_id: String::new(), ..good.clone() }),
        ("writer_epoch", Event { writer_epoch: "a\u{7}".to_owned(), ..good.clone() }),
        ("resumed_from", Event { resumed_from: Some("x".to_owned()), ..good.clone() }),
        ("resumed_from", Event { resumed_from: Some("x".to_owned()), ..events[0].clone() }),
        ("step_name", Event { position: None, ..good.clone() }),
        ("step_name", Event { position: Some(leaf("")), ..good.clone() }),
        ("step_index", Event { position: Some(StepPosition { step_index: -1, ..leaf("f") }), ..good.clone() }),
        ("field_name", Event { field: Some(set("x", 1)), ..good.clone() }),
        ("field_name", Event { field: None, ..field.clone() }),
        ("field_name", Event { field: Some(append("x", 1)), ..field.clone() }),
        ("codec_version", Event { field: Some(FieldWrite { codec_version: -1, ..set("x", 1) }), ..field.clone() }),
        ("value", Event { field: Some(FieldWrite { value: Cell::Json("{".into()), ..set("x", 1) }), ..field.clone() }),
        ("status", Event { status: Some(super::Status::Running), ..good.clone() }),
        ("status", Event { status: Some(super::Status::Completed), ..events[0].clone() }),
        ("query_tags", Event { query_tags: Some("{}".to_owned()), ..good.clone() }),
        ("query_tags", Event { query_tags: Some("[]".to_owned()), ..events[0].clone() }),
        ("config_hash", Event { config_hash: Some("x".to_owned()), ..good.clone() }),
        ("attributes", Event { attributes: Some("nope".to_owned()), ..good.clone() }),
        ("attributes", Event { attributes: Some(" null ".to_owned()), ..good.clone() }),
        ("error_type", Event { error_type: Some("x".to_owned()), ..good.clone() }),
        ("error_type", Event { error_type: None, ..writer.fail(&leaf("f")) }),
        ("traceback", Event { traceback: Some("x".to_owned()), ..good.clone() }),
        ("step_name", Event { position: Some(leaf("f")), ..events[0].clone() }),
        ("item_seq", foreign(0, "e", 2, EventType::ItemCreated)),
        ("attempt", foreign(1, "e", 1, EventType::ItemCreated)),
    ];
    for (key, event) in cases {
        let (mut log, ..) = started();
        let error = refused(&mut log, &[events[0].clone(), event], Kind::Row, "invalid-event");
        assert_eq!((error.row(), error.column()), (Some(1), Some(key)), "{error}");
    }
}

#[test]
fn only_the_first_event_of_an_attempt_says_what_it_resumed() {
    let (mut log, ..) = started();
    let mut second = log.resume("f");
    log.append(&[second.start(&leaf("f"))]).unwrap();
    let again = Event { resumed_from: Some("x".to_owned()), ..second.start(&leaf("g")) };
    let error = refused(&mut log, &[again], Kind::Row, "invalid-event");
    assert_eq!(error.column(), Some("resumed_from"));
}

#[test]
fn a_checkpoint_is_one_completion_with_its_fields() {
    let (log, mut writer, _) = started();
    let events = writer.complete(&leaf("b"), vec![set("x", 1), append("y", 2)]);
    let key = |events: &[Event]| {
        let error = check_batch(events, Intent::Checkpoint, &log.heads, &HashMap::new()).unwrap_err();
        assert_eq!(error.kind(), Kind::Row);
        (error.row().unwrap(), error.column().unwrap().to_owned())
    };
    assert!(check_batch(&events, Intent::Checkpoint, &log.heads, &HashMap::new()).is_ok());
    assert_eq!(key(&[]), (0, "event_type".to_owned()));
    assert_eq!(key(&events[..2]), (1, "event_type".to_owned()));
    assert_eq!(key(&[&events[..], &events[2..]].concat()), (3, "event_type".to_owned()));
    let next = writer.complete(&leaf("c"), vec![set("x", 1)]);
    assert_eq!(key(&[&events[..2], &next].concat()), (2, "checkpoint_id".to_owned()));
    assert_eq!(key(&[writer.start(&leaf("d"))]), (0, "event_type".to_owned()));
    let mut moved = events.clone();
    moved[1].position = Some(leaf("z"));
    assert_eq!(key(&moved), (1, "step_name".to_owned()));
    let mut foreign_item = events;
    let item_id = ItemId::parse("6").unwrap();
    foreign_item[1].event_id = event_id("6", &foreign_item[1].checkpoint_id, 1);
    foreign_item[1].item_id = item_id;
    assert_eq!(key(&foreign_item), (1, "item_id".to_owned()));
}

#[test]
fn a_log_without_a_readable_event_can_be_resumed() {
    let damaged = DamagedEvent { item_id: Some("5".to_owned()), item_seq: Some(4), ..DamagedEvent::default() };
    let item = super::super::testing::item();
    let state = FoldState::new(item.clone(), [Stored::Damaged(damaged)]).unwrap();
    let mut resumed = StreamWriter::resuming(&state.item(), "r", "f").unwrap();
    let events = resumed.complete(&leaf("a"), vec![]);
    assert_eq!(events[0].item_seq, 5);
    let heads = HashMap::from([(item, state.head())]);
    assert!(check_batch(&events, Intent::Append, &heads, &HashMap::new()).is_ok());
    let fresh = [writer("e").create()];
    assert_eq!(check_batch(&fresh, Intent::Append, &heads, &HashMap::new()).unwrap_err().code(), "stream-fenced");
    assert!(stored(&events).iter().all(|row| matches!(row, Stored::Event(_))));
}
