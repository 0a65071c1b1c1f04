use super::super::testing::{Write, append, folded, item, leaf, resumed, set, writer};
use super::super::{Event, EventType, FieldWrite, Status, StepKind, StepPosition, check};
use super::{FailureNote, StreamWriter};
use crate::{Error, Kind};

fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.event_type.name()).collect()
}

/// A stream of every call.
fn whole(writer: &mut StreamWriter) -> Vec<Event> {
    let mut events = vec![writer.create(), writer.start(&leaf("frame"))];
    events.extend(writer.complete(&leaf("a"), vec![set("x", 1), append("y", 2)]));
    events.push(writer.fail(&StepPosition::root()));
    events.push(writer.end());
    events
}

#[test]
fn events_are_numbered_and_keep_every_rule_of_incoming_ones() {
    let events = whole(&mut writer("e"));
    let seqs: Vec<i64> = events.iter().map(|event| event.item_seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7]);
    for event in &events {
        assert_eq!(check::event(event), Ok(()), "{event:?}");
    }
}

#[test]
fn a_checkpoint_is_its_fields_in_order_and_the_completion() {
    let mut writer = writer("e");
    writer.create();
    let events = writer.complete(&leaf("a"), vec![set("x", 1), append("y", 2), set("x", 3)]);
    assert_eq!(kinds(&events), ["FIELD_SET", "FIELD_APPEND", "FIELD_SET", "STEP_COMPLETED"]);
    assert!(events.iter().all(|event| event.checkpoint_id == "0:e:2" && event.position == Some(leaf("a"))));
    assert_eq!(writer.next_seq(), 6);
}

#[test]
fn the_first_call_is_item_created_and_it_comes_once() {
    let mut fresh = writer("e");
    assert_eq!((fresh.attempt(), fresh.next_seq()), (0, 1));
    for error in [
        fresh.step_started(&leaf("a"), None, 0).unwrap_err(),
        fresh.step_completed(&leaf("a"), vec![], None, 0).unwrap_err(),
        fresh.item_terminal(Status::Completed, None, 0).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.code()), (Kind::State, "writer-order"));
    }
    fresh.create();
    assert_eq!(fresh.next_seq(), 2);
    assert_eq!(fresh.item_created(None, None, None, 0).unwrap_err().code(), "writer-order");
    assert_eq!(fresh.next_seq(), 2);
}

#[test]
fn a_position_completes_once_an_attempt() {
    let mut writer = writer("e");
    let events = [vec![writer.create()], writer.complete(&leaf("a"), vec![])].concat();
    let error = writer.step_completed(&leaf("a"), vec![], None, 0).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::State, "repeated-position"));
    assert!(error.to_string().contains("iteration="), "{error}");
    writer.complete(&leaf("a").at([1]), vec![]);
    let others = [
        StepPosition { step_kind: StepKind::Loop, ..leaf("a") },
        StepPosition { step_index: 1, ..leaf("a") },
        StepPosition { enclosing_step: Some("f".to_owned()), ..leaf("a") },
        StepPosition { selector_step: Some("f".to_owned()), ..leaf("a") },
    ];
    for position in others {
        writer.complete(&position, vec![]);
    }
    resumed(&events, "f").complete(&leaf("a"), vec![]);
}

#[test]
fn nothing_follows_the_end() {
    let mut writer = writer("e");
    whole(&mut writer);
    assert_eq!(writer.ended(), Some(Status::Completed));
    let errors: [Error; 4] = [
        writer.step_started(&leaf("z"), None, 0).unwrap_err(),
        writer.step_completed(&leaf("z"), vec![], None, 0).unwrap_err(),
        writer.item_failed(&leaf("z"), FailureNote::default(), None, 0).unwrap_err(),
        writer.item_terminal(Status::Filtered, None, 0).unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.code()), (Kind::State, "item-terminal"));
    }
    assert_eq!(writer.next_seq(), 8);
}

#[test]
fn a_resume_goes_on_above_everything_and_names_what_it_folded_once() {
    let mut first = writer("e");
    let events = [vec![first.create()], first.complete(&leaf("a"), vec![set("x", 1)])].concat();
    let mut second = resumed(&events, "f");
    assert_eq!((second.attempt(), second.next_seq(), second.writer_epoch()), (1, 4, "f"));
    assert_eq!(second.item_created(None, None, None, 0).unwrap_err().code(), "writer-order");
    let more = second.complete(&leaf("b"), vec![set("x", 2)]);
    assert_eq!(more[0].resumed_from.as_ref(), Some(&events[2].event_id));
    assert_eq!(more[1].resumed_from, None);
    assert_eq!(second.start(&leaf("c")).resumed_from, None);
    for event in &more {
        assert_eq!(check::event(event), Ok(()));
    }
}

#[test]
fn an_ended_item_is_not_resumed() {
    let events = whole(&mut writer("e"));
    let error = StreamWriter::resuming(&folded(&events), "r", "f").unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::State, "item-terminal"));
}

#[test]
fn used_up_numbers_are_an_error() {
    let mut used = folded(&[writer("e").create()]);
    used.last_attempt = i32::MAX;
    assert_eq!(StreamWriter::resuming(&used, "r", "f").unwrap_err().kind(), Kind::State);
    used.last_attempt = 0;
    for last in [i64::MAX, i64::MAX - 1] {
        used.last_item_seq = last;
        assert_eq!(StreamWriter::resuming(&used, "r", "f").unwrap_err().kind(), Kind::State);
    }
}

#[test]
fn arguments_that_no_event_can_have_change_nothing() {
    let mut writer = writer("e");
    let argument = |error: Error, name: &str| {
        assert_eq!(error.kind(), Kind::Argument, "{error}");
        assert!(error.to_string().starts_with(&format!("`{name}`")), "{error}");
    };
    argument(StreamWriter::new(item(), "", "e").unwrap_err(), "run_id");
    argument(StreamWriter::new(item(), "r", "").unwrap_err(), "writer_epoch");
    argument(StreamWriter::new(item(), "r", "a\nb").unwrap_err(), "writer_epoch");
    argument(writer.item_created(Some("[]".to_owned()), None, None, 0).unwrap_err(), "query_tags");
    argument(writer.item_created(None, Some("{"), None, 0).unwrap_err(), "config");
    argument(writer.item_created(None, None, Some("NaN".to_owned()), 0).unwrap_err(), "attributes");
    writer.create();
    argument(writer.step_started(&leaf(""), None, 0).unwrap_err(), "step_name");
    let negative = StepPosition { step_index: -1, ..leaf("a") };
    argument(writer.step_started(&negative, None, 0).unwrap_err(), "step_index");
    let nameless = FieldWrite { field_name: String::new(), ..set("x", 1) };
    argument(writer.step_completed(&leaf("a"), vec![set("x", 1), nameless], None, 0).unwrap_err(), "field_name");
    argument(writer.item_terminal(Status::Failed, None, 0).unwrap_err(), "status");
    argument(writer.item_failed(&leaf("a"), FailureNote::default(), None, 0).unwrap_err(), "error_type");
    assert_eq!((writer.next_seq(), writer.ended()), (2, None));
    assert_eq!(writer.step_started(&leaf("f"), Some(" null".to_owned()), 0).unwrap().attributes, None);
    assert_eq!(writer.complete(&leaf("a"), vec![])[0].event_type, EventType::StepCompleted);
}
