//! What the tests of the item log share: short ways to events, and events of no writer.

use proptest::prelude::*;

use super::{
    Cell, CheckpointId, Event, EventType, FailureNote, FieldOp, FieldWrite, FoldState, FoldedItem, ItemId, Status,
    StepPosition, Stored, StreamWriter, event_id,
};

/// A writer of item `5` in run `r`.
pub(super) fn writer(epoch: &str) -> StreamWriter {
    StreamWriter::new(item(), "r", epoch).unwrap()
}

/// A writer that goes on from the fold of `events`.
pub(super) fn resumed(events: &[Event], epoch: &str) -> StreamWriter {
    StreamWriter::resuming(&folded(events), "r2", epoch).unwrap()
}

pub(super) fn item() -> ItemId {
    ItemId::parse("5").unwrap()
}

pub(super) fn leaf(name: &str) -> StepPosition {
    StepPosition::leaf(name)
}

pub(super) fn set(name: &str, value: i64) -> FieldWrite {
    FieldWrite {
        field_name: name.to_owned(),
        field_type: "int".to_owned(),
        codec_version: 0,
        op: FieldOp::Set,
        value: Cell::Int(value),
    }
}

pub(super) fn append(name: &str, value: i64) -> FieldWrite {
    FieldWrite { op: FieldOp::Append, ..set(name, value) }
}

/// Short forms of the writer's calls. The time of an event is its seq.
pub(super) trait Write {
    fn create(&mut self) -> Event;
    fn start(&mut self, position: &StepPosition) -> Event;
    fn complete(&mut self, position: &StepPosition, fields: Vec<FieldWrite>) -> Vec<Event>;
    fn end(&mut self) -> Event;
    fn fail(&mut self, position: &StepPosition) -> Event;
}

impl Write for StreamWriter {
    fn create(&mut self) -> Event {
        self.item_created(Some(r#"{"lang":"en"}"#.to_owned()), Some("{}"), None, self.next_seq()).unwrap()
    }

    fn start(&mut self, position: &StepPosition) -> Event {
        self.step_started(position, None, self.next_seq()).unwrap()
    }

    fn complete(&mut self, position: &StepPosition, fields: Vec<FieldWrite>) -> Vec<Event> {
        self.step_completed(position, fields, None, self.next_seq()).unwrap()
    }

    fn end(&mut self) -> Event {
        self.item_terminal(Status::Completed, None, self.next_seq()).unwrap()
    }

    fn fail(&mut self, position: &StepPosition) -> Event {
        let note = FailureNote { error_type: "ValueError".to_owned(), ..FailureNote::default() };
        self.item_failed(position, note, None, self.next_seq()).unwrap()
    }
}

pub(super) fn stored(events: &[Event]) -> Vec<Stored> {
    events.iter().cloned().map(Stored::from).collect()
}

pub(super) fn folded(events: &[Event]) -> FoldedItem {
    FoldState::new(item(), stored(events)).unwrap().item()
}

/// The integers that a field has.
pub(super) fn ints(folded: &FoldedItem, field: &str) -> Vec<i64> {
    let values = folded.fields.get(field).map_or(&[][..], |field| &field.values);
    values.iter().map(|value| if let Cell::Int(int) = value.cell { int } else { panic!("{value:?}") }).collect()
}

/// The names of the problems.
pub(super) fn problems(folded: &FoldedItem) -> Vec<&'static str> {
    folded.problems.iter().map(|problem| problem.kind.name()).collect()
}

/// An event with the ids of its place, in a checkpoint of its own.
pub(super) fn foreign(attempt: i32, epoch: &str, seq: i64, event_type: EventType) -> Event {
    let checkpoint_id = CheckpointId { attempt, writer_epoch: epoch, first_seq: seq }.text();
    Event {
        event_id: event_id("5", &checkpoint_id, 0),
        item_id: item(),
        attempt,
        writer_epoch: epoch.to_owned(),
        run_id: "r".to_owned(),
        item_seq: seq,
        checkpoint_id,
        resumed_from: None,
        event_type,
        position: event_type.has_position().then(|| leaf("s")),
        field: event_type.field_op().map(|op| FieldWrite { op, ..set("x", seq) }),
        status: match event_type {
            EventType::ItemCreated => Some(Status::Running),
            EventType::Terminal => Some(Status::Completed),
            EventType::Failed => Some(Status::Failed),
            _ => None,
        },
        query_tags: None,
        config_hash: None,
        attributes: None,
        error_type: (event_type == EventType::Failed).then(|| "ValueError".to_owned()),
        error_dump: None,
        traceback: None,
        event_ts: seq,
        schema_version: 1,
    }
}

fn any_position() -> impl Strategy<Value = StepPosition> {
    (prop_oneof!["[ab]", Just(String::new())], 0..2_i64, proptest::collection::vec(0..2_i64, 0..2))
        .prop_map(|(name, step_index, iteration)| StepPosition { step_index, iteration, ..leaf(&name) })
}

fn any_event() -> impl Strategy<Value = (Event, Option<usize>)> {
    let number = prop_oneof![20 => 0..9_i64, 1 => any::<i64>()];
    let attempt = prop_oneof![20 => 0..4, 1 => any::<i32>()];
    let place = (attempt, "[abc]", number, 0..EventType::ALL.len(), 0..6_u8);
    let content = (any_position(), "[xy]", 0..3_i64, proptest::option::weighted(0.4, 0..40_usize), 0..12_u8);
    (place, content).prop_map(|((attempt, epoch, seq, kind, checkpoint), (position, field, value, resumed, odd))| {
        let event_type = EventType::ALL[kind];
        let mut event = foreign(attempt, &epoch, seq, event_type);
        event.checkpoint_id = format!("c{}", checkpoint / 2);
        // Ids collide now and then, within a place and between places.
        event.event_id = if odd < 10 { format!("{attempt}{epoch}{seq}{kind}{checkpoint}") } else { format!("e{odd}") };
        if event.position.is_some() || odd == 0 {
            event.position = (odd != 1).then_some(position);
        }
        if let Some(write) = &mut event.field {
            *write = FieldWrite { op: write.op, ..set(&field, value) };
        }
        event.run_id = format!("r{value}");
        event.event_ts = value;
        if odd == 2 {
            event.status = Some(Status::Filtered);
        }
        (event, resumed)
    })
}

/// Events that no writer would send: streams that overlap, resume in circles, repeat and contradict.
pub(super) fn garbage() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(any_event(), 1..40).prop_map(|drawn| {
        let ids: Vec<String> = drawn.iter().map(|(event, _)| event.event_id.clone()).collect();
        let linked = drawn.into_iter().map(|(event, resumed)| {
            let resumed_from = resumed.map(|at| ids.get(at).cloned().unwrap_or_else(|| "nowhere".to_owned()));
            Event { resumed_from, ..event }
        });
        linked.collect()
    })
}
