use super::super::testing::{Write, append, folded, foreign, ints, item, leaf, problems, resumed, set, stored, writer};
use super::super::{
    BlobIds, Cell, DamagedEvent, Event, EventType, FieldWrite, FoldedItem, ItemId, Status, StepKind, StepPosition,
    Stored, fold,
};
use super::work;
use crate::Kind;

/// The fold of `events` after it was seen to be the same in other orders and with repeats.
#[track_caller]
fn fold_any_order(events: &[Event]) -> FoldedItem {
    let expected = folded(events);
    let mut other = events.to_vec();
    other.reverse();
    assert_eq!(folded(&other), expected);
    other.extend_from_slice(events);
    for _ in 0..events.len() {
        other.rotate_left(3);
        other.swap(0, events.len() / 2);
        assert_eq!(folded(&other), expected);
    }
    expected
}

fn names(positions: &[StepPosition]) -> Vec<&str> {
    positions.iter().map(|position| position.step_name.as_str()).collect()
}

fn trajectory(folded: &FoldedItem) -> Vec<(String, i32, i64)> {
    folded.trajectory.iter().map(|entry| (entry.position.to_string(), entry.attempt, entry.item_seq)).collect()
}

fn entry(name: &str, attempt: i32, item_seq: i64) -> (String, i32, i64) {
    (name.to_owned(), attempt, item_seq)
}

#[test]
fn no_events_are_no_item() {
    assert_eq!(fold(item(), []), None);
    let other = foreign(0, "e", 1, EventType::ItemCreated);
    assert_eq!(fold(ItemId::parse("6").unwrap(), stored(&[other])), None, "rows of other items are left out");
}

#[test]
fn a_whole_stream_folds_into_every_part() {
    let mut writer = writer("e");
    let frame = StepPosition { step_kind: StepKind::Loop, ..leaf("refine") };
    let mut events = vec![writer.create(), writer.start(&frame)];
    for i in 0..2 {
        events.extend(writer.complete(&leaf("draft").at([i]), vec![append("drafts", i), set("best", i)]));
    }
    events.push(writer.fail(&frame));
    events.extend(writer.complete(&frame, vec![]));
    events.push(writer.item_terminal(Status::Filtered, Some(r#"{"reason":"short"}"#.to_owned()), 12).unwrap());
    let folded = fold_any_order(&events);
    assert_eq!((folded.status, folded.failed), (Status::Filtered, false));
    assert_eq!((ints(&folded, "drafts"), ints(&folded, "best")), (vec![0, 1], vec![1]));
    assert_eq!(folded.last_event_id, Some(events.last().unwrap().event_id.clone()));
    assert_eq!((folded.last_item_seq, folded.last_attempt), (11, 0));
    let expected = [entry("draft[0]", 0, 5), entry("draft[1]", 0, 8), entry("refine", 0, 10)];
    assert_eq!(trajectory(&folded), expected);
    assert_eq!((names(&folded.started), names(&folded.open_frames)), (vec!["refine"], vec![]));
    assert_eq!(folded.completed, [leaf("draft").at([0]), leaf("draft").at([1]), frame]);
    assert_eq!((folded.query_tags.as_deref(), folded.config_hash.is_some()), (Some(r#"{"lang":"en"}"#), true));
    assert_eq!(folded.attributes.as_deref(), Some(r#"{"reason":"short"}"#));
    assert_eq!((folded.created_at, folded.updated_at), (Some(1), Some(12)));
    assert_eq!(folded.run_ids, ["r"]);
    assert_eq!(folded.failures.iter().map(|failure| failure.recovered).collect::<Vec<_>>(), [true]);
    assert_eq!((folded.fenced.len(), folded.problems.len()), (0, 0));
    assert!(folded.strict().is_ok());
}

#[test]
fn a_value_keeps_its_kind_type_and_codec() {
    let mut writer = writer("e");
    let cells = [
        Cell::Int(i64::MIN),
        Cell::Float(f64::from_bits(0x7ff8_0000_0000_0001)),
        Cell::Bool(false),
        Cell::Str(String::new()),
        Cell::Json("1e300".to_owned()),
        Cell::blob(vec![]),
    ];
    let write = |(at, cell): (usize, &Cell)| FieldWrite {
        field_type: format!("t{at}"),
        codec_version: i32::try_from(at).unwrap(),
        value: cell.clone(),
        ..append("x", 0)
    };
    let writes = cells.iter().enumerate().map(write).collect();
    let events = [vec![writer.create()], writer.complete(&leaf("a"), writes)].concat();
    let folded = fold_any_order(&events);
    for (at, (value, cell)) in folded.fields["x"].values.iter().zip(&cells).enumerate() {
        assert_eq!(value.cell, *cell);
        assert_eq!((value.field_type.as_str(), value.codec_version), (format!("t{at}").as_str(), at as i32));
        assert_eq!((&value.step, &value.event_id), (&leaf("a"), &events[at + 1].event_id));
    }
}

// Streams.

#[test]
fn a_silent_second_resume_that_wakes_up_late_is_fenced() {
    let mut first = writer("a");
    let mut events = vec![first.create(), first.start(&leaf("s2")), first.start(&leaf("s3"))];
    let mut late = resumed(&events, "y");
    events.push(first.start(&leaf("s4")));
    let mut owner = resumed(&events, "x");
    events.extend(owner.complete(&leaf("s5"), vec![set("v", 5)]));
    events.extend([owner.start(&leaf("s7")), late.start(&leaf("lost"))]);
    assert_eq!(events.iter().map(|event| event.item_seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 4]);
    let folded = fold_any_order(&events);
    assert_eq!(names(&folded.started), ["s2", "s3", "s4", "s7"]);
    assert_eq!(ints(&folded, "v"), [5]);
    let fenced = &folded.fenced[..];
    assert_eq!(fenced.len(), 1);
    assert_eq!((fenced[0].attempt, fenced[0].writer_epoch.as_str()), (1, "y"));
    assert_eq!(
        (fenced[0].first_seq, fenced[0].last_seq, &fenced[0].event_ids),
        (4, 4, &vec![events[7].event_id.clone()])
    );
    assert_eq!((folded.last_item_seq, folded.last_attempt, problems(&folded)), (7, 1, vec![]));
}

#[test]
fn of_two_resumes_at_one_head_the_smaller_epoch_stays() {
    let mut first = writer("a");
    let mut events = vec![first.create()];
    let (mut x, mut y) = (resumed(&events, "x"), resumed(&events, "y"));
    events.extend(y.complete(&leaf("s"), vec![append("v", 2)]));
    events.extend(x.complete(&leaf("s"), vec![append("v", 1)]));
    let folded = fold_any_order(&events);
    assert_eq!(ints(&folded, "v"), [1]);
    assert_eq!((folded.fenced.len(), folded.fenced[0].writer_epoch.as_str()), (1, "y"));
}

#[test]
fn the_end_of_a_stream_behind_where_it_was_resumed_is_fenced() {
    let mut first = writer("a");
    let mut events = vec![first.create(), first.start(&leaf("kept"))];
    let mut second = resumed(&events, "b");
    events.extend(first.complete(&leaf("zombie"), vec![set("v", 1)]));
    events.push(first.end());
    events.extend(second.complete(&leaf("s"), vec![set("w", 2)]));
    let folded = fold_any_order(&events);
    assert_eq!((folded.status, names(&folded.completed)), (Status::Running, vec!["s"]));
    assert_eq!((folded.fenced[0].attempt, folded.fenced[0].first_seq, folded.fenced[0].event_ids.len()), (0, 3, 3));
    assert_eq!((folded.last_item_seq, folded.fields.contains_key("v")), (5, false));
}

#[test]
fn the_greater_first_seq_wins_among_streams_of_one_attempt() {
    let events = [
        foreign(0, "a", 1, EventType::ItemCreated),
        foreign(1, "b", 2, EventType::StepStarted),
        foreign(1, "c", 3, EventType::Failed),
    ];
    let folded = fold_any_order(&events);
    assert_eq!((folded.started.len(), folded.failures.len()), (0, 1));
}

#[test]
fn a_stream_that_does_not_say_what_it_resumed_goes_behind_the_best_one_below_it() {
    let mut events = vec![
        foreign(0, "a", 1, EventType::ItemCreated),
        foreign(0, "a", 2, EventType::StepStarted),
        foreign(0, "a", 3, EventType::Failed),
        foreign(1, "b", 3, EventType::Terminal),
        foreign(2, "c", 3, EventType::StepCompleted),
    ];
    let folded = fold_any_order(&events);
    // Attempt 1 has no event below seq 3, so attempt 0 is what attempt 2 went on from.
    assert_eq!((folded.status, folded.started.len(), folded.completed.len()), (Status::Running, 1, 1));
    assert_eq!(folded.failures.len(), 0, "cut at the stream's first seq");
    assert_eq!(problems(&folded), ["unknown_resume"]);
    for unknown in ["nowhere".to_owned(), events[4].event_id.clone()] {
        events[4].resumed_from = Some(unknown);
        let again = fold_any_order(&events);
        assert_eq!((&again.completed, &again.started), (&folded.completed, &folded.started));
        assert_eq!(problems(&again), ["unknown_resume"]);
    }
}

#[test]
fn an_event_of_the_same_or_a_later_attempt_is_nothing_to_resume() {
    let mut one = foreign(1, "a", 2, EventType::StepStarted);
    let mut other = foreign(1, "b", 3, EventType::Failed);
    one.resumed_from = Some(other.event_id.clone());
    other.resumed_from = Some(one.event_id.clone());
    let folded = fold_any_order(&[foreign(0, "z", 1, EventType::ItemCreated), one, other]);
    assert_eq!((folded.created_at, folded.started.len(), folded.failures.len()), (Some(1), 0, 1));
    assert_eq!(problems(&folded), ["unknown_resume"]);
}

#[test]
fn only_the_first_event_of_a_stream_says_what_it_resumed() {
    let first = foreign(0, "a", 1, EventType::ItemCreated);
    let begin = Event { resumed_from: Some(first.event_id.clone()), ..foreign(1, "b", 2, EventType::StepStarted) };
    let next = Event { resumed_from: Some("nowhere".to_owned()), ..foreign(1, "b", 3, EventType::Failed) };
    assert_eq!(problems(&fold_any_order(&[first, begin, next])), Vec::<&str>::new());
}

#[test]
fn of_two_events_at_one_place_the_smaller_id_counts() {
    let mut events = [
        foreign(0, "a", 1, EventType::ItemCreated),
        foreign(0, "a", 2, EventType::Failed),
        foreign(0, "a", 2, EventType::StepStarted),
    ];
    events[1].event_id = "b".to_owned();
    events[2].event_id = "a".to_owned();
    let folded = fold_any_order(&events);
    assert_eq!((folded.failures.len(), folded.started.len()), (0, 1));
    assert_eq!(problems(&folded), ["duplicate_seq"]);
    let dropped = Event { resumed_from: Some("b".to_owned()), ..foreign(1, "c", 3, EventType::StepStarted) };
    let folded = fold_any_order(&[&events[..], &[dropped]].concat());
    assert_eq!(problems(&folded), ["duplicate_seq"], "a place is known by each of its events");
}

#[test]
fn of_two_contents_of_one_event_the_smaller_bytes_count() {
    let created = foreign(0, "a", 1, EventType::ItemCreated);
    let one = Event { run_id: "r1".to_owned(), ..foreign(0, "a", 2, EventType::StepStarted) };
    let other = Event { run_id: "r2".to_owned(), ..one.clone() };
    let folded = fold_any_order(&[created.clone(), other.clone(), one.clone()]);
    assert_eq!((folded.run_ids, folded.problems.len()), (vec!["r".to_owned(), "r1".to_owned()], 1));
    assert_eq!(folded.problems[0].kind.name(), "conflicting_event");
    let copy = Event { event_ts: 1, ..one.clone() };
    let folded = fold_any_order(&[created, one, copy]);
    assert_eq!((folded.updated_at, folded.problems.len()), (Some(1), 0), "the time makes no other event");
}

#[test]
fn a_loaded_copy_of_a_blob_is_taken_over_an_unloaded_one() {
    let mut writer = writer("e");
    let blob = FieldWrite { value: Cell::blob(b"x".to_vec()), ..set("image", 0) };
    let events = [vec![writer.create()], writer.complete(&leaf("a"), vec![blob])].concat();
    let unloaded: Vec<Event> = events.iter().cloned().map(Event::without_blob_bytes).collect();
    let folded = fold_any_order(&[unloaded, events].concat());
    assert_eq!((folded.fields["image"].values[0].cell.is_unloaded(), folded.problems.len()), (false, 0));
}

// Checkpoints.

#[test]
fn a_step_that_died_half_way_is_applied_once() {
    let mut first = writer("a");
    let mut events = vec![first.create()];
    events.extend(first.complete(&leaf("a"), vec![append("v", 1)]));
    let died = first.complete(&leaf("b"), vec![append("v", 2), append("v", 3)]);
    events.extend_from_slice(&died[..1]);
    assert_eq!(ints(&fold_any_order(&events), "v"), [1]);
    let mut second = resumed(&events, "b");
    let again = second.complete(&leaf("b"), vec![append("v", 2), append("v", 3)]);
    assert_eq!((again[0].attempt, again[0].item_seq), (1, 5));
    events.extend(again);
    let folded = fold_any_order(&events);
    assert_eq!((ints(&folded, "v"), folded.last_attempt, folded.last_item_seq), (vec![1, 2, 3], 1, 7));
    assert_eq!((problems(&folded), folded.fenced.len()), (vec![], 0));
}

#[test]
fn the_same_checkpoint_sent_twice_is_one() {
    let mut writer = writer("a");
    let created = writer.create();
    let checkpoint = writer.complete(&leaf("a"), vec![append("v", 1)]);
    let once = folded(&[vec![created.clone()], checkpoint.clone()].concat());
    assert_eq!(folded(&[checkpoint.clone(), vec![created], checkpoint].concat()), once);
    assert_eq!(ints(&once, "v"), [1]);
}

#[test]
fn a_completion_of_another_checkpoint_or_stream_is_not_the_fields() {
    let mut writer = writer("a");
    let events = [vec![writer.create()], writer.complete(&leaf("a"), vec![append("v", 1)])].concat();
    let mut other_checkpoint = events.clone();
    other_checkpoint[1].checkpoint_id = "0:a:1".to_owned();
    let mut resumed = resumed(&events[..2], "b").complete(&leaf("a"), vec![]);
    resumed[0].checkpoint_id = events[1].checkpoint_id.clone();
    for events in [other_checkpoint, [&events[..2], &resumed].concat()] {
        assert_eq!(ints(&fold_any_order(&events), "v"), Vec::<i64>::new());
    }
}

#[test]
fn a_field_at_another_position_than_its_checkpoint_completes_counts_and_is_reported() {
    let mut writer = writer("a");
    let mut events =
        [vec![writer.create()], writer.complete(&leaf("a"), vec![append("v", 1), append("v", 2)])].concat();
    events[1].position = Some(leaf("b"));
    let folded = fold_any_order(&events);
    assert_eq!((ints(&folded, "v"), problems(&folded)), (vec![1, 2], vec!["mixed_checkpoint"]));
    let second = Event { position: Some(leaf("b")), ..foreign(0, "a", 5, EventType::StepCompleted) };
    events.push(Event { checkpoint_id: events[1].checkpoint_id.clone(), ..second });
    let folded = fold_any_order(&events);
    assert_eq!(
        (ints(&folded, "v"), problems(&folded)),
        (vec![2, 1], vec![]),
        "each with the completion of its position"
    );
}

// Positions.

#[test]
fn a_rerun_loop_step_takes_its_former_place() {
    let mut first = writer("a");
    let mut events = vec![first.create()];
    for i in 0..3 {
        events.extend(first.complete(&leaf("draft").at([i]), vec![append("drafts", i), set("last", i)]));
    }
    let mut second = resumed(&events, "b");
    events.extend(second.complete(&leaf("draft").at([0]), vec![append("drafts", 10), set("last", 10)]));
    let folded = fold_any_order(&events);
    assert_eq!((ints(&folded, "drafts"), ints(&folded, "last")), (vec![10, 1, 2], vec![2]));
    let expected = [entry("draft[0]", 1, 13), entry("draft[1]", 0, 7), entry("draft[2]", 0, 10)];
    assert_eq!(trajectory(&folded), expected);
    assert_eq!(folded.trajectory.iter().map(|entry| entry.place).collect::<Vec<_>>(), [4, 7, 10]);
    let mut third = resumed(&events, "c");
    events.extend(third.complete(&leaf("draft").at([0]), vec![append("drafts", 20)]));
    assert_eq!(ints(&fold_any_order(&events), "drafts"), [20, 1, 2], "and so at the third time");
}

#[test]
fn a_field_that_the_later_completion_does_not_write_disappears() {
    let mut first = writer("a");
    let mut events = [vec![first.create()], first.complete(&leaf("a"), vec![set("x", 1), append("y", 2)])].concat();
    events.extend(resumed(&events, "b").complete(&leaf("a"), vec![set("z", 3)]));
    let folded = fold_any_order(&events);
    assert_eq!(folded.fields.keys().collect::<Vec<_>>(), ["z"]);
}

#[test]
fn a_position_completed_twice_within_one_attempt_is_never_superseded() {
    let twice = [2, 3].map(|seq| foreign(0, "a", seq, EventType::StepCompleted));
    let fields = twice.clone().map(|event| {
        let seq = event.item_seq + 10;
        Event {
            checkpoint_id: event.checkpoint_id,
            field: Some(append("v", event.item_seq)),
            ..foreign(0, "a", seq, EventType::FieldAppend)
        }
    });
    let mut events = [&[foreign(0, "a", 1, EventType::ItemCreated)], &twice[..], &fields[..]].concat();
    let folded = fold_any_order(&events);
    assert_eq!((ints(&folded, "v"), folded.trajectory.len(), folded.completed.len()), (vec![2, 3], 2, 1));
    assert_eq!(problems(&folded), ["missing_seq", "repeated_position"]);
    events.extend(resumed(&events, "b").complete(&leaf("s"), vec![append("v", 9)]));
    let folded = fold_any_order(&events);
    assert_eq!((ints(&folded, "v"), folded.trajectory.len()), (vec![2, 3, 9], 3), "not by a later attempt either");
}

#[test]
fn every_field_of_a_position_is_part_of_its_identity() {
    let mut first = writer("a");
    let mut events = [vec![first.create()], first.complete(&leaf("a"), vec![append("v", 0)])].concat();
    let others = [
        StepPosition { step_kind: StepKind::Branch, ..leaf("a") },
        StepPosition { step_index: 1, ..leaf("a") },
        StepPosition { enclosing_step: Some("f".to_owned()), ..leaf("a") },
        StepPosition { selector_step: Some("f".to_owned()), ..leaf("a") },
        leaf("a").at([0]),
    ];
    let mut second = resumed(&events, "b");
    for position in &others {
        events.extend(second.complete(position, vec![append("v", 1)]));
    }
    assert_eq!(ints(&fold_any_order(&events), "v"), [0, 1, 1, 1, 1, 1]);
}

// Fields.

#[test]
fn a_set_replaces_everything_before_it() {
    let mut writer = writer("a");
    let mut events = vec![writer.create()];
    events.extend(writer.complete(&leaf("a"), vec![append("v", 1), append("v", 2)]));
    events.extend(writer.complete(&leaf("b"), vec![set("v", 3)]));
    let folded = fold_any_order(&events);
    assert_eq!((ints(&folded, "v"), folded.fields["v"].op.name(), problems(&folded)), (vec![3], "set", vec![]));
}

#[test]
fn an_append_behind_another_positions_set_restarts_the_values() {
    let mut writer = writer("a");
    let mut events = vec![writer.create()];
    events.extend(writer.complete(&leaf("a"), vec![append("v", 1)]));
    events.extend(writer.complete(&leaf("b"), vec![set("v", 2)]));
    events.extend(writer.complete(&leaf("c"), vec![append("v", 3), append("v", 4)]));
    let folded = fold_any_order(&events);
    assert_eq!((ints(&folded, "v"), folded.fields["v"].op.name()), (vec![3, 4], "append"));
    assert_eq!(problems(&folded), ["append_after_set"]);
    events.truncate(5);
    let own = writer.complete(&leaf("d"), vec![set("w", 1), append("w", 2)]);
    let folded = fold_any_order(&[events, own].concat());
    assert_eq!((ints(&folded, "w"), problems(&folded)), (vec![2], vec!["missing_seq"]), "its own set is meant");
}

#[test]
fn blobs_are_named_by_their_events() {
    let mut writer = writer("a");
    let blob = |op: FieldWrite| FieldWrite { value: Cell::blob(vec![1]), ..op };
    let writes =
        vec![blob(set("one", 0)), blob(append("many", 0)), append("many", 7), blob(append("many", 0)), set("none", 1)];
    let events = [vec![writer.create()], writer.complete(&leaf("a"), writes)].concat();
    let folded = fold_any_order(&events);
    let ids = folded.blob_event_ids();
    assert_eq!(ids.keys().copied().collect::<Vec<_>>(), ["many", "one"]);
    assert_eq!(ids["one"], BlobIds::One(&events[1].event_id));
    assert_eq!(ids["many"], BlobIds::Many(vec![&events[2].event_id, &events[4].event_id]));
}

// Status.

#[test]
fn a_checkpoint_in_flight_behind_the_end_does_not_count() {
    let mut first = writer("a");
    let mut events = vec![first.create(), foreign(0, "a", 2, EventType::Terminal)];
    let mut late = writer("a");
    late.create();
    late.start(&leaf("unsent"));
    events.extend(late.complete(&leaf("s"), vec![set("v", 1)]));
    let folded = fold_any_order(&events);
    assert_eq!((folded.status, folded.fields.len(), folded.completed.len()), (Status::Completed, 0, 0));
    assert_eq!(folded.last_event_id.as_ref(), Some(&events[1].event_id));
    assert_eq!((problems(&folded), folded.last_item_seq), (vec!["after_terminal", "after_terminal"], 4));
}

#[test]
fn a_failed_item_is_running_until_the_position_completes() {
    let mut writer = writer("a");
    let mut events = [vec![writer.create()], writer.complete(&leaf("a"), vec![])].concat();
    events.push(writer.fail(&leaf("a")));
    let failed = fold_any_order(&events);
    assert_eq!((failed.status, failed.failed), (Status::Running, true), "it completed before, not since");
    assert_eq!(failed.last_failure().map(|failure| failure.error_type.as_str()), Some("ValueError"));
    let mut second = resumed(&events, "b");
    let recovering = [&events[..], &second.complete(&leaf("a"), vec![])].concat();
    let recovered = fold_any_order(&recovering);
    assert_eq!((recovered.failed, recovered.failures.len(), recovered.failures[0].recovered), (false, 1, true));
    let ended = fold_any_order(&[&events[..], &[resumed(&events, "b").end()]].concat());
    assert_eq!((ended.status, ended.failed), (Status::Completed, false));
}

#[test]
fn open_frames_are_those_started_since_they_completed_outermost_first() {
    let mut first = writer("a");
    let mut events =
        vec![first.create(), first.start(&leaf("outer")), first.start(&leaf("inner")), first.start(&leaf("done"))];
    events.extend(first.complete(&leaf("done"), vec![]));
    let mut second = resumed(&events, "b");
    events.push(second.start(&leaf("outer")));
    assert_eq!(names(&fold_any_order(&events).open_frames), ["outer", "inner"]);
    events.push(second.start(&leaf("done")));
    assert_eq!(names(&fold_any_order(&events).open_frames), ["outer", "inner", "done"]);
}

// Damage.

#[test]
fn holes_and_a_missing_creation_are_reported() {
    let mut writer = writer("a");
    let mut events = vec![writer.create()];
    events.extend((0..6).map(|i| writer.start(&leaf(&format!("s{i}")))));
    let holed = [&events[1..3], &events[4..]].concat();
    let folded = fold_any_order(&holed);
    assert_eq!(problems(&folded), ["no_item_created", "missing_seq", "missing_seq"]);
    assert_eq!(folded.problems.iter().map(|problem| problem.item_seq).collect::<Vec<_>>(), [None, Some(2), Some(5)]);
    assert_eq!((folded.started.len(), folded.created_at, folded.query_tags), (5, Some(2), None));
    let error = fold_any_order(&holed).strict().unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Format, "item-damaged"));
    assert!(error.to_string().contains("no_item_created"), "{error}");
}

#[test]
fn places_of_fenced_and_unreadable_events_are_no_holes() {
    let mut first = writer("a");
    let mut events = vec![first.create(), first.start(&leaf("s2"))];
    let resumed_from = Some(events[1].event_id.clone());
    events.extend([first.start(&leaf("s3")), Event { resumed_from, ..foreign(1, "b", 5, EventType::StepStarted) }]);
    let folded = fold_any_order(&events);
    assert_eq!(problems(&folded), ["missing_seq"], "seq 3 is fenced, seq 4 is nowhere");
    assert!(folded.problems[0].message.contains("1 of the places between seq 2 and seq 5"));
    let damaged = DamagedEvent { item_id: Some("5".to_owned()), item_seq: Some(4), ..DamagedEvent::default() };
    let folded = fold(item(), stored(&events).into_iter().chain([Stored::Damaged(damaged)])).unwrap();
    assert_eq!(problems(&folded), ["unreadable_event"]);
}

#[test]
fn an_unreadable_event_is_a_problem_of_its_item_and_counts_for_the_numbers_above() {
    let mut writer = writer("a");
    let created = writer.create();
    let damaged = |item: &str| {
        Stored::Damaged(DamagedEvent {
            event_id: Some("e".to_owned()),
            item_id: Some(item.to_owned()),
            attempt: Some(7),
            item_seq: Some(9),
            message: "`event_type`: unknown".to_owned(),
        })
    };
    let rows = || [Stored::from(created.clone()), damaged("5"), damaged("5"), damaged("6")];
    let folded = fold(item(), rows()).unwrap();
    assert_eq!((problems(&folded), folded.last_attempt, folded.last_item_seq), (vec!["unreadable_event"], 7, 9));
    assert_eq!(folded.last_event_id.as_ref(), Some(&created.event_id));
    let other = fold(ItemId::parse("6").unwrap(), rows()).unwrap();
    assert_eq!((other.status, other.last_event_id, other.created_at), (Status::Running, None, None));
    assert_eq!(other.problems.len(), 2, "unreadable, and no creation");
}

#[test]
fn a_second_creation_is_a_problem_and_the_first_counts() {
    let mut writer = writer("a");
    let again = Event { query_tags: Some("{}".to_owned()), ..foreign(0, "a", 2, EventType::ItemCreated) };
    let folded = fold_any_order(&[writer.create(), again]);
    assert_eq!(
        (problems(&folded), folded.query_tags.as_deref()),
        (vec!["repeated_item_created"], Some(r#"{"lang":"en"}"#))
    );
}

// Growth, in steps counted instead of time.

fn steps_of_fold(events: &[Event]) -> f64 {
    let rows = stored(events);
    let (folded, steps) = work::count(|| fold(item(), rows).unwrap());
    assert_eq!(folded.item_id, item());
    steps as f64
}

/// `count` events in order: checkpoints of two appends and a set.
fn long_stream(count: usize) -> Vec<Event> {
    let mut writer = writer("a");
    let mut events = vec![writer.create()];
    let mut i = 0;
    while events.len() < count {
        events.extend(writer.complete(&leaf("s").at([i]), vec![append("x", i), append("y", i), set("z", i)]));
        i += 1;
    }
    events
}

#[test]
fn a_fold_of_100_000_events_is_linear() {
    let long = long_stream(100_000);
    let short_steps = steps_of_fold(&long[..10_000]);
    let long_steps = steps_of_fold(&long);
    assert!(long_steps < 5.0 * 100_000.0, "{long_steps}");
    assert!(long_steps / short_steps < 10.5, "{short_steps} to {long_steps}");
    // Out of order, sorting adds the logarithm.
    let shuffled: Vec<Event> = (0..long.len()).map(|at| long[at * 7_919 % long.len()].clone()).collect();
    let shuffled_steps = steps_of_fold(&shuffled);
    assert!(shuffled_steps < 25.0 * 100_000.0, "{shuffled_steps}");
}

#[test]
fn a_fold_of_many_lost_streams_is_no_worse() {
    for first_seq in [|_: i32| 5_i64, |attempt: i32| i64::from(attempt) + 1, |attempt: i32| 30_000 - i64::from(attempt)]
    {
        let streams: Vec<Event> =
            (0..20_000).map(|attempt| foreign(attempt, "a", first_seq(attempt), EventType::StepStarted)).collect();
        let steps = steps_of_fold(&streams);
        assert!(steps < 25.0 * 20_000.0, "{steps}");
    }
}

#[test]
fn a_fold_of_one_checkpoint_with_many_completions_is_no_worse() {
    let event = |seq: i64| {
        let event_type = if seq % 2 == 0 { EventType::StepCompleted } else { EventType::FieldAppend };
        let position = Some(leaf("s").at([seq / 2]));
        Event { checkpoint_id: "c".to_owned(), position, ..foreign(0, "a", seq, event_type) }
    };
    let events: Vec<Event> = (1..=20_000).map(event).collect();
    let steps = steps_of_fold(&events);
    assert!(steps < 5.0 * 20_000.0, "{steps}");
    assert_eq!(folded(&events).fields["x"].values.len(), 10_000);
}
