//! Which events of an item count: its streams, the tip, and the walk back from it.
//!
//! A stream is all events of one attempt and epoch. The result depends on the set of events alone, and
//! the work is linear in them but for sorting, which is linear when they come in order.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::folded::FencedStream;
use super::problem::{Problem, ProblemKind};
#[cfg(test)]
use super::work;

/// What an event is to the choice of streams.
pub(super) trait Link: Clone {
    fn attempt(&self) -> i32;
    fn epoch(&self) -> &str;
    fn seq(&self) -> i64;
    fn id(&self) -> &str;
    fn resumed_from(&self) -> Option<&str>;
    /// Whether both are the same event.
    fn is_same(&self, other: &Self) -> bool;
    /// A total order: the lesser content counts where one id has several.
    fn compare(&self, other: &Self) -> Ordering;

    fn stream(&self) -> (i32, &str) {
        (self.attempt(), self.epoch())
    }
}

/// The events that count as far as streams decide, and what became of the others.
#[derive(Debug, Clone)]
pub(super) struct Chain<L> {
    /// The kept events, earlier streams first, by seq within each.
    pub(super) kept: Vec<L>,
    /// The greatest seq of the tip stream; 0 without one.
    pub(super) tip_seq: i64,
    pub(super) fenced: Vec<FencedStream>,
    pub(super) problems: Vec<Problem>,
    /// Whether every kept stream begins behind the place that it resumed, so that events at the end of
    /// the tip change nothing before them.
    pub(super) ascending: bool,
}

/// Chooses among `links`, which may hold an event several times. `unreadable` are the places of stored
/// rows that are no events, which are no holes.
pub(super) fn resolve<L: Link>(links: Vec<L>, unreadable: &[i64]) -> Chain<L> {
    let mut problems = Vec::new();
    let mut links = distinct(links, &mut problems);
    links.sort_by(|a, b| {
        #[cfg(test)]
        work::tick();
        (a.stream(), a.seq(), a.id()).cmp(&(b.stream(), b.seq(), b.id()))
    });
    let streams = Streams::of(&links);
    streams.report_duplicate_seqs(&mut problems);
    let walk = streams.walk_back(&mut problems);
    let mut chain = Chain {
        kept: walk.iter().rev().flat_map(|part| streams.members(part.kept.clone())).cloned().collect(),
        tip_seq: walk.first().map_or(0, |tip| streams.last_seq(&tip.kept)),
        fenced: streams.fenced(&walk),
        problems,
        ascending: true,
    };
    streams.check_seams(&walk, unreadable, &mut chain);
    chain
}

/// Each event once: of one id with several contents the least.
fn distinct<L: Link>(links: Vec<L>, problems: &mut Vec<Problem>) -> Vec<L> {
    let repeated = repeats(&links, problems);
    let kept = links.into_iter().zip(repeated).filter(|(_, repeated)| !repeated);
    kept.map(|(link, _)| link).collect()
}

/// For which of `links` another one of the same id stands.
pub(super) fn repeats<L: Link>(links: &[L], problems: &mut Vec<Problem>) -> Vec<bool> {
    let mut chosen: HashMap<&str, usize> = HashMap::with_capacity(links.len());
    let mut conflicting = HashSet::new();
    let mut dropped = vec![false; links.len()];
    for (at, link) in links.iter().enumerate() {
        #[cfg(test)]
        work::tick();
        let Some(best) = chosen.get_mut(link.id()) else {
            chosen.insert(link.id(), at);
            continue;
        };
        if !link.is_same(&links[*best]) {
            conflicting.insert(link.id());
        }
        let loser = if link.compare(&links[*best]).is_lt() { std::mem::replace(best, at) } else { at };
        dropped[loser] = true;
    }
    problems.extend(conflicting.into_iter().map(|id| Problem {
        event_id: Some(id.to_owned()),
        ..Problem::new(ProblemKind::ConflictingEvent, format!("event {id} is stored with several contents"))
    }));
    dropped
}

/// The events sorted by stream, seq and id.
struct Streams<'a, L> {
    links: &'a [L],
    /// The streams by attempt and epoch, as ranges of `links`.
    ranges: Vec<Range<usize>>,
}

/// The part of a stream that counts.
struct Part {
    stream: usize,
    kept: Range<usize>,
}

impl<'a, L: Link> Streams<'a, L> {
    fn of(links: &'a [L]) -> Self {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (at, link) in links.iter().enumerate() {
            match ranges.last_mut() {
                Some(range) if links[range.start].stream() == link.stream() => range.end = at + 1,
                _ => ranges.push(at..at + 1),
            }
        }
        Self { links, ranges }
    }

    /// The events of `range`, of several at one seq the first.
    fn members(&self, range: Range<usize>) -> impl Iterator<Item = &'a L> {
        let links = self.links;
        range
            .clone()
            .filter(move |at| *at == range.start || links[at - 1].seq() != links[*at].seq())
            .map(|at| &links[at])
    }

    fn first(&self, stream: usize) -> &'a L {
        &self.links[self.ranges[stream].start]
    }

    fn last_seq(&self, range: &Range<usize>) -> i64 {
        range.clone().next_back().map_or(0, |at| self.links[at].seq())
    }

    fn report_duplicate_seqs(&self, problems: &mut Vec<Problem>) {
        for range in &self.ranges {
            for pair in self.links[range.clone()].windows(2) {
                if let [kept, dropped] = pair
                    && kept.seq() == dropped.seq()
                {
                    let message = format!("two events of attempt {} have seq {}", dropped.attempt(), dropped.seq());
                    problems.push(Problem::of(ProblemKind::DuplicateSeq, dropped.seq(), dropped.id(), message));
                }
            }
        }
    }

    /// From the tip back to the first stream.
    fn walk_back(&self, problems: &mut Vec<Problem>) -> Vec<Part> {
        let mut order: Vec<usize> = (0..self.ranges.len()).collect();
        // By epoch already, which stays the order among equals.
        order.sort_by_key(|stream| {
            let first = self.first(*stream);
            (Reverse(first.attempt()), Reverse(first.seq()))
        });
        let holders = if order.len() > 1 { self.holders() } else { HashMap::new() };
        let mut parts = Vec::new();
        let mut rest = order.iter().copied();
        let mut next = rest.next().map(|tip| Part { stream: tip, kept: self.ranges[tip].clone() });
        while let Some(part) = next {
            let first = self.first(part.stream);
            parts.push(part);
            let resumed =
                first.resumed_from().and_then(|id| holders.get(id)).map(|(stream, at)| (*stream, &self.links[*at]));
            next = match resumed {
                Some((stream, event)) if event.attempt() < first.attempt() => {
                    Some(self.part(stream, |seq| seq <= event.seq()))
                }
                _ => {
                    if first.attempt() > 0 || first.resumed_from().is_some() {
                        problems.push(unknown_resume(first));
                    }
                    // Streams are passed over once in all: what this search skips begins no earlier than
                    // `first`, and no later search starts before where this one ends.
                    let fits = |stream: &usize| {
                        #[cfg(test)]
                        work::tick();
                        let candidate = self.first(*stream);
                        candidate.attempt() < first.attempt() && candidate.seq() < first.seq()
                    };
                    rest.find(fits).map(|stream| self.part(stream, |seq| seq < first.seq()))
                }
            };
        }
        parts
    }

    /// Each event's stream and place in `links`, by id.
    fn holders(&self) -> HashMap<&'a str, (usize, usize)> {
        let places =
            self.ranges.iter().enumerate().flat_map(|(stream, range)| range.clone().map(move |at| (stream, at)));
        places.map(|(stream, at)| (self.links[at].id(), (stream, at))).collect()
    }

    /// The beginning of a stream, as far as `counts` is true for its seqs.
    fn part(&self, stream: usize, counts: impl Fn(i64) -> bool) -> Part {
        let range = self.ranges[stream].clone();
        let length = self.links[range.clone()].partition_point(|link| counts(link.seq()));
        Part { stream, kept: range.start..range.start + length }
    }

    fn fenced(&self, walk: &[Part]) -> Vec<FencedStream> {
        let mut from: Vec<usize> = self.ranges.iter().map(|range| range.start).collect();
        for part in walk {
            from[part.stream] = part.kept.end;
        }
        let ends = from.into_iter().zip(&self.ranges).filter(|(from, range)| *from < range.end);
        ends.map(|(from, range)| {
            let first = &self.links[from];
            FencedStream {
                attempt: first.attempt(),
                writer_epoch: first.epoch().to_owned(),
                first_seq: first.seq(),
                last_seq: self.last_seq(range),
                event_ids: self.members(from..range.end).map(|link| link.id().to_owned()).collect(),
            }
        })
        .collect()
    }

    /// Places between a stream's begin and where it resumed that nothing stored has.
    fn check_seams(&self, walk: &[Part], unreadable: &[i64], chain: &mut Chain<L>) {
        let mut stored: Option<Vec<i64>> = None;
        for (at, part) in walk.iter().enumerate() {
            let first = self.first(part.stream);
            let resumed = walk.get(at + 1).map_or(0, |before| self.last_seq(&before.kept));
            chain.ascending &= first.seq() > resumed;
            if i128::from(first.seq()) - i128::from(resumed) <= 1 {
                continue;
            }
            let stored = stored.get_or_insert_with(|| self.stored_seqs(unreadable));
            let between =
                stored.partition_point(|seq| *seq < first.seq()) - stored.partition_point(|seq| *seq <= resumed);
            let missing = i128::from(first.seq()) - i128::from(resumed) - 1 - between as i128;
            if missing > 0 {
                chain.problems.push(missing_seq(first.seq(), first.id(), missing, resumed));
            }
        }
    }

    fn stored_seqs(&self, unreadable: &[i64]) -> Vec<i64> {
        let mut seqs: Vec<i64> = self.links.iter().map(Link::seq).chain(unreadable.iter().copied()).collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }
}

/// The problem of `missing` places between `after` and an event.
pub(super) fn missing_seq(seq: i64, id: &str, missing: i128, after: i64) -> Problem {
    let message = format!("{missing} of the places between seq {after} and seq {seq} have no event");
    Problem::of(ProblemKind::MissingSeq, seq, id, message)
}

fn unknown_resume<L: Link>(first: &L) -> Problem {
    let what = first.resumed_from().map_or_else(
        || "does not say what it resumed".to_owned(),
        |id| format!("resumed event {id}, which no earlier attempt has"),
    );
    let message = format!("attempt {} {what}", first.attempt());
    Problem::of(ProblemKind::UnknownResume, first.seq(), first.id(), message)
}
