use proptest::prelude::*;

use super::super::testing::{Write, append, foreign, garbage, item, leaf, resumed, set, writer};
use super::super::{
    DamagedEvent, Event, EventType, FailureNote, FoldState, FoldedItem, ItemId, Status, Stored, StreamWriter,
};
use super::{ItemSummary, Overview, OverviewBuilder};

fn builder<'a>(events: impl IntoIterator<Item = &'a Event>) -> OverviewBuilder {
    let mut builder = OverviewBuilder::default();
    events.into_iter().for_each(|event| builder.push(&event.outline()));
    builder
}

/// The summary that a folded item has.
fn of(folded: FoldedItem) -> ItemSummary {
    let mut completed_steps = std::collections::BTreeMap::new();
    for entry in &folded.trajectory {
        *completed_steps.entry(entry.position.step_name.clone()).or_default() += 1;
    }
    let failures =
        folded.failures.into_iter().map(|failure| super::Failure { traceback: None, attributes: None, ..failure });
    ItemSummary {
        item_id: folded.item_id,
        status: folded.status,
        failed: folded.failed,
        run_id: None,
        run_ids: folded.run_ids,
        created_at: folded.created_at,
        updated_at: folded.updated_at,
        query_tags: folded.query_tags,
        failures: failures.collect(),
        completed_steps,
    }
}

fn writer_of(text: &str, run: &str) -> StreamWriter {
    StreamWriter::new(ItemId::parse(text).unwrap(), run, "e").unwrap()
}

fn note(error_type: &str) -> FailureNote {
    FailureNote {
        error_type: error_type.to_owned(),
        error_dump: Some("boom".to_owned()),
        traceback: Some("line 1".to_owned()),
    }
}

#[test]
fn nothing_is_an_empty_overview() {
    assert_eq!(builder(&[]).overview(), Overview::default());
}

#[test]
fn items_are_counted_by_status_and_failures_by_type_and_run() {
    let mut events = Vec::new();
    for n in 0..20 {
        let mut writer = writer_of(&n.to_string(), if n < 10 { "r1" } else { "r2" });
        events.push(writer.create());
        events.extend(writer.complete(&leaf("a"), vec![]));
        match n % 10 {
            0 => events.push(writer.item_failed(&leaf("b"), note("KeyError"), None, 0).unwrap()),
            1 => {
                events.push(writer.item_failed(&leaf("b"), note("ValueError"), None, 0).unwrap());
                events.extend(writer.complete(&leaf("b"), vec![]));
                events.push(writer.end());
            }
            2 => events.push(writer.item_terminal(Status::Filtered, None, 0).unwrap()),
            3 => {}
            _ => events.push(writer.end()),
        }
    }
    let overview = builder(&events).overview();
    let counts = (overview.items, overview.running, overview.completed, overview.filtered, overview.failed);
    assert_eq!(counts, (20, 4, 14, 2, 2));
    assert_eq!((overview.failures, overview.unreadable), (4, 0));
    let groups = |groups: &std::collections::BTreeMap<String, super::FailureGroup>| {
        groups.iter().map(|(name, group)| (name.clone(), group.count)).collect::<Vec<_>>()
    };
    let expected = |a: &str, b: &str| vec![(a.to_owned(), 2), (b.to_owned(), 2)];
    assert_eq!(groups(&overview.failures_by_error_type), expected("KeyError", "ValueError"));
    assert_eq!(groups(&overview.failures_by_run), expected("r1", "r2"));
    let sample = &overview.failures_by_run["r2"].samples[0];
    assert_eq!((sample.item_id.as_str(), sample.error_dump.as_deref(), &sample.traceback), ("10", Some("boom"), &None));
    assert_eq!(overview.completed_steps.into_iter().collect::<Vec<_>>(), [("a".to_owned(), 20), ("b".to_owned(), 2)]);
}

#[test]
fn samples_are_few_and_the_first_by_item() {
    let mut events: Vec<Event> = Vec::new();
    for n in (0..30).rev() {
        let mut writer = writer_of(&format!("5/s:{n}"), "r");
        events.extend([writer.create(), writer.fail(&leaf("a"))]);
    }
    let overview = builder(&events).overview();
    let group = &overview.failures_by_error_type["ValueError"];
    assert_eq!(group.count, 30);
    let ids: Vec<&str> = group.samples.iter().map(|failure| failure.item_id.as_str()).collect();
    assert_eq!(ids, ["5/s:0", "5/s:1", "5/s:2", "5/s:3", "5/s:4"]);
}

#[test]
fn a_resumed_item_is_as_its_fold_has_it() {
    let mut first = writer("a");
    let mut events = vec![first.create()];
    events.extend(first.complete(&leaf("s"), vec![append("x", 1)]));
    events.push(first.fail(&leaf("t")));
    let mut zombie = first.clone();
    let mut second = resumed(&events, "b");
    events.extend(second.complete(&leaf("t"), vec![set("y", 1)]));
    events.extend(second.complete(&leaf("s"), vec![append("x", 2)]));
    events.push(zombie.end());
    let mut builder = builder(events.iter().rev());
    let summary = builder.summaries()[0];
    assert_eq!((summary.status, summary.failed), (Status::Running, false));
    assert_eq!((summary.run_id.as_deref(), &summary.run_ids[..]), (Some("r2"), &["r".to_owned(), "r2".to_owned()][..]));
    let steps = ["s", "t"].map(|step| (step.to_owned(), 1));
    assert_eq!(summary.completed_steps, steps.into());
}

#[test]
fn damage_is_counted_and_breaks_nothing() {
    let mut builder = builder(&[writer("a").create()]);
    builder.push_damaged(&DamagedEvent::default());
    builder.push_damaged(&DamagedEvent { item_id: Some("6".to_owned()), ..DamagedEvent::default() });
    builder.push_damaged(&DamagedEvent { item_id: Some("a:b".to_owned()), ..DamagedEvent::default() });
    let event = foreign(0, "e", 1, EventType::ItemCreated);
    builder.push(&super::Outline { item_id: "a:b", ..event.outline() });
    let overview = builder.overview();
    assert_eq!((overview.items, overview.running, overview.unreadable), (2, 2, 4));
}

#[test]
fn a_damaged_row_that_comes_again_is_counted_once() {
    let damaged = DamagedEvent { event_id: Some("x".to_owned()), ..DamagedEvent::default() };
    let mut builder = builder(&[]);
    builder.push_damaged(&damaged);
    assert_eq!(builder.overview().unreadable, 1);
    builder.push_damaged(&damaged);
    assert_eq!(builder.overview().unreadable, 1);
}

#[test]
fn events_that_come_again_after_an_answer_take_no_memory() {
    let mut writer = writer_of("1", "r");
    let mut events = vec![writer.create()];
    events.extend(writer.complete(&leaf("a"), vec![]));
    let mut builder = builder(&events);
    drop(builder.overview());
    let once = builder.bytes();
    for _ in 0..3 {
        events.iter().for_each(|event| builder.push(&event.outline()));
        assert!(builder.bytes() > once);
        drop(builder.overview());
        assert_eq!(builder.bytes(), once);
    }
}

proptest! {
    #[test]
    fn every_item_is_as_its_own_fold_has_it(
        (events, shuffled) in garbage().prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
    ) {
        let rows = events.iter().cloned().map(Stored::from);
        let folded = FoldState::new(item(), rows).unwrap().item();
        let mut builder = builder(events.iter().chain(&shuffled));
        let ours = ItemSummary { run_id: None, ..builder.summaries()[0].clone() };
        prop_assert_eq!(ours, of(folded));
    }

    #[test]
    fn what_comes_after_an_answer_counts_as_if_it_had_come_before(
        (events, cuts) in garbage().prop_flat_map(|events| {
            let cut = 0..=events.len();
            (Just(events).prop_shuffle(), proptest::collection::vec((cut.clone(), cut), 1..4))
        }),
    ) {
        let mut asked = OverviewBuilder::default();
        for (one, other) in cuts {
            events[one.min(other)..one.max(other)].iter().for_each(|event| asked.push(&event.outline()));
            drop(asked.overview());
        }
        events.iter().for_each(|event| asked.push(&event.outline()));
        let mut once = builder(&events);
        prop_assert_eq!(asked.summaries(), once.summaries());
        prop_assert_eq!(asked.overview(), once.overview());
        // A third time changes nothing, and nothing is held three times.
        let held = asked.items.values().map(|item| item.marks.len()).sum::<usize>();
        events.iter().for_each(|event| asked.push(&event.outline()));
        prop_assert_eq!(asked.overview(), once.overview());
        prop_assert!(asked.items.values().map(|item| item.marks.len()).sum::<usize>() <= held);
    }
}
