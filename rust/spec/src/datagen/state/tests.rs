use proptest::prelude::*;

use super::super::testing::{Write, append, folded, foreign, garbage, item, leaf, resumed, set, stored, writer};
use super::super::{DamagedEvent, Event, EventType, FoldState, FoldedItem, Head, Stored};
use super::Extension;

fn state(events: &[Event]) -> FoldState {
    FoldState::new(item(), stored(events)).unwrap()
}

fn seen(state: &FoldState) -> (FoldedItem, Head, usize) {
    (state.item(), state.head(), state.kept_count())
}

/// Continues a state with `more`, and sees that it is then as if folded from zero.
fn extend(state: &mut FoldState, all: &mut Vec<Event>, more: &[Event]) -> Extension {
    let before = seen(state);
    let extension = state.extend(stored(more));
    match extension {
        Extension::Continued => {
            all.extend_from_slice(more);
            assert_eq!(seen(state), seen(&self::state(all)));
        }
        Extension::Refold => assert_eq!(seen(state), before),
    }
    extension
}

#[test]
fn a_stream_is_folded_forward_to_its_end() {
    let mut writer = writer("a");
    let mut all = vec![writer.create()];
    let mut state = state(&all);
    let batches = [
        vec![writer.start(&leaf("frame"))],
        writer.complete(&leaf("s"), vec![set("x", 1), append("y", 1)]),
        vec![writer.fail(&leaf("t"))],
        [writer.complete(&leaf("t"), vec![append("y", 2)]), writer.complete(&leaf("frame"), vec![])].concat(),
        vec![writer.end()],
    ];
    for mut batch in batches {
        batch.reverse();
        assert_eq!(extend(&mut state, &mut all, &batch), Extension::Continued);
    }
    assert_eq!(extend(&mut state, &mut all, &[foreign(0, "a", 20, EventType::Failed)]), Extension::Continued);
    assert_eq!(state.item().problems.len(), 2, "behind the end, and a hole");
}

#[test]
fn a_checkpoint_may_arrive_in_parts() {
    let mut writer = writer("a");
    let mut all = vec![writer.create()];
    let mut state = state(&all);
    for event in writer.complete(&leaf("s"), vec![append("x", 1), append("x", 2)]) {
        assert!(state.item().fields.is_empty());
        assert_eq!(extend(&mut state, &mut all, &[event]), Extension::Continued);
    }
    assert_eq!(state.item().fields.len(), 1);
}

#[test]
fn whatever_does_not_continue_the_tip_asks_for_a_refold() {
    let mut first = writer("a");
    let mut all = vec![first.create()];
    all.extend(first.complete(&leaf("s"), vec![]));
    let next = first.start(&leaf("t"));
    let mut state = state(&all);
    let known = all[1].clone();
    let cases = [
        vec![Event { event_ts: known.event_ts + 1, ..known.clone() }],
        vec![next.clone(), next.clone()],
        vec![next.clone(), Event { event_id: known.event_id, ..foreign(0, "a", 4, EventType::Failed) }],
        vec![foreign(0, "b", 3, EventType::Failed)],
        vec![resumed(&all, "b").start(&leaf("t"))],
        vec![Event { event_id: "z".to_owned(), ..foreign(0, "a", 2, EventType::Failed) }],
        vec![next.clone(), foreign(0, "b", 9, EventType::Failed)],
    ];
    for case in cases {
        assert_eq!(extend(&mut state, &mut all, &case), Extension::Refold, "{case:?}");
    }
    let damaged =
        |item: &str| Stored::Damaged(DamagedEvent { item_id: Some(item.to_owned()), ..DamagedEvent::default() });
    assert_eq!(state.extend([damaged("5")]), Extension::Refold);
    assert_eq!(state.extend([damaged("6")]), Extension::Continued);
    let other = Event { item_id: item().child("s", 0).unwrap(), ..next.clone() };
    assert_eq!(state.extend(stored(&[other])), Extension::Continued);
    assert_eq!(state.kept_count(), 2);
    assert_eq!(extend(&mut state, &mut all, &[next]), Extension::Continued);
    assert_eq!(extend(&mut state, &mut all, &[]), Extension::Continued);
}

#[test]
fn what_it_keeps_already_may_come_again_beside_more() {
    let mut writer = writer("a");
    let mut all = vec![writer.create()];
    all.extend(writer.complete(&leaf("s"), vec![set("x", 1)]));
    let mut state = state(&all);
    let (bytes, known) = (state.bytes(), all.clone());
    assert_eq!(state.extend(stored(&known)), Extension::Continued);
    assert_eq!((state.bytes(), state.kept_count()), (bytes, known.len()));
    let more = [known, writer.complete(&leaf("t"), vec![set("x", 2)])].concat();
    assert_eq!(state.extend(stored(&more)), Extension::Continued);
    assert!(state.bytes() > bytes);
    assert_eq!(seen(&state), seen(&self::state(&more)));
    // An event of a stream that was left is no longer kept, and may decide which stream counts.
    let mut both = all.clone();
    both.push(resumed(&all, "b").start(&leaf("t")));
    let mut state = self::state(&both);
    assert_eq!(state.extend(stored(&[writer.start(&leaf("u"))])), Extension::Refold);
}

#[test]
fn only_damaged_rows_make_a_head_that_no_stream_continues() {
    let damaged = DamagedEvent { attempt: Some(2), item_seq: Some(5), ..DamagedEvent::default() };
    let mut state = FoldState::new(item(), [Stored::Damaged(damaged)]).unwrap();
    let head = state.head();
    assert_eq!((head.attempt, head.writer_epoch.as_str(), head.last_event_id, head.max_seq), (2, "", None, 5));
    assert_eq!(state.extend(stored(&[foreign(2, "a", 6, EventType::Failed)])), Extension::Refold);
}

/// What comes behind the tip of any log: events of its stream, with holes and borrowed ids.
fn tail() -> impl Strategy<Value = Vec<(i64, usize, u8, i64)>> {
    proptest::collection::vec((1..3_i64, 0..EventType::ALL.len(), 0..12_u8, 0..3_i64), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_fold_depends_on_the_set_of_events_only(
        (events, shuffled) in garbage().prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
        repeats in proptest::collection::vec(0..40_usize, 0..10),
    ) {
        let expected = folded(&events);
        let repeated = repeats.iter().filter_map(|at| events.get(*at).cloned());
        let many: Vec<Event> = shuffled.iter().cloned().chain(repeated).collect();
        prop_assert_eq!(&folded(&many), &expected);
        prop_assert_eq!(state(&many).head(), state(&events).head());
        prop_assert!(expected.fields.values().all(|field| !field.values.is_empty()));
    }

    #[test]
    fn every_event_is_kept_fenced_or_reported(events in garbage()) {
        let state = state(&events);
        let folded = state.item();
        let fenced: usize = folded.fenced.iter().map(|stream| stream.event_ids.len()).sum();
        let count = |name| folded.problems.iter().filter(|problem| problem.kind.name() == name).count();
        let distinct: std::collections::HashSet<_> = events.iter().map(|event| &event.event_id).collect();
        prop_assert_eq!(state.kept_count() + fenced + count("duplicate_seq"), distinct.len());
    }

    #[test]
    fn folding_forward_is_folding_from_zero(mut events in garbage(), tail in tail()) {
        let mut state = state(&events);
        let head = state.head();
        let mut seq = state.tip_seq;
        for (step, kind, odd, value) in tail {
            let Some(next) = seq.checked_add(step) else { break };
            seq = next;
            let mut event = foreign(head.attempt, &head.writer_epoch, seq, EventType::ALL[kind]);
            event.checkpoint_id = format!("c{}", odd % 3);
            if odd == 0 {
                event.event_id = events[0].event_id.clone();
            }
            if odd == 1 {
                event.resumed_from = Some(events[0].event_id.clone());
            }
            if let Some(position) = &mut event.position {
                *position = leaf(["a", "b"][kind % 2]).at(vec![value; usize::from(odd % 2)]);
            }
            if let Some(field) = &mut event.field {
                field.field_name = "x".to_owned();
            }
            let _ = extend(&mut state, &mut events, &[event]);
        }
    }

    #[test]
    fn batches_of_any_size_fold_alike(sizes in proptest::collection::vec(1..5_usize, 1..12), resumes in 0..3_usize) {
        let mut all = Vec::new();
        let mut first = writer("a");
        all.push(first.create());
        let mut current = first;
        for round in 0..=resumes {
            for i in 0..4 {
                all.extend(current.complete(&leaf("s").at([i]), vec![append("x", i), set("y", i)]));
            }
            current = resumed(&all, &format!("b{round}"));
        }
        let mut given: Vec<Event> = all[..1].to_vec();
        let mut state = state(&given);
        let mut rest = &all[1..];
        let mut refolds = 0;
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (batch, more) = rest.split_at((*size).min(rest.len()));
            rest = more;
            if extend(&mut state, &mut given, batch) == Extension::Refold {
                given.extend_from_slice(batch);
                state = self::state(&given);
                refolds += 1;
            }
        }
        prop_assert_eq!(state.item(), folded(&all));
        // Rounds after the last resume are never written, so each resume costs one refold.
        prop_assert!(refolds <= resumes, "{} refolds", refolds);
    }
}
