//! How far a read saw, so that a later one can look at what came since and at nothing else.
//!
//! Rows of an append-only store come in one order in each shard: by generation, and by row within the one that is not
//! sealed. So a generation and a number of rows say what was seen of a shard, as long as its writer is the same
//! (another one may have found less of the last generation in the log) and the last generation that was seen is not
//! merged (in the base table nobody can tell its rows from others).

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::base::BaseView;
use super::snapshot::{Looked, Snapshot};
use super::sources::Source;

/// How far a read of an append-only store saw. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach(Arc<BTreeMap<Uuid, InShard>>);

/// Every generation below `generation`, and the first rows of that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InShard {
    epoch: u64,
    generation: u64,
    rows: u64,
}

impl Reach {
    /// What a snapshot shows.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let in_shard = |shard: &Looked| {
            let fresh = snapshot.shards.iter().find(|fresh| fresh.generations.shard_id == shard.id);
            let memory = fresh.and_then(|fresh| fresh.memory.as_ref()?.tables().next());
            let (generation, rows) = match memory {
                Some((active, last)) => (active.generation, last.map_or(0, |last| last + 1)),
                None => (shard.generation, 0),
            };
            (shard.id, InShard { epoch: shard.epoch, generation, rows })
        };
        Self(Arc::new(snapshot.looked.iter().map(in_shard).collect()))
    }

    /// What both saw.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        if Arc::ptr_eq(&self.0, &other.0) {
            return self.clone();
        }
        let both = self.0.iter().filter_map(|(id, one)| {
            let other = other.0.get(id).filter(|other| other.epoch == one.epoch)?;
            let less = if (other.generation, other.rows) < (one.generation, one.rows) { other } else { one };
            Some((*id, *less))
        });
        Self(Arc::new(both.collect()))
    }

    /// Whether all that `newer` saw beyond this is in memory and in generations, where it can be told apart.
    pub(super) fn is_continued_by(&self, newer: &Self, base: &BaseView) -> bool {
        self.is_continued(newer, |id| base.merged(id))
    }

    /// `merged`: the newest generation of a shard that the base table has.
    fn is_continued(&self, newer: &Self, merged: impl Fn(Uuid) -> u64) -> bool {
        let continued = |(id, newer): (&Uuid, &InShard)| match self.0.get(id) {
            Some(seen) => seen.epoch == newer.epoch && merged(*id) < seen.generation,
            None => merged(*id) == 0,
        };
        newer.0.iter().all(continued) && self.0.keys().all(|id| newer.0.contains_key(id))
    }

    /// From which row on a place has to be looked at; `None`: not at all.
    pub(super) fn unseen(&self, source: &Source<'_>) -> Option<u64> {
        let (shard_id, generation, rows) = match source {
            Source::Base => return None,
            Source::Memory { shard_id, table, last } => (shard_id, table.generation, last.map(|last| last + 1)),
            Source::Generation { shard_id, generation, .. } => (shard_id, *generation, None),
        };
        let Some(seen) = self.0.get(shard_id) else { return Some(0) };
        match (generation.cmp(&seen.generation), rows) {
            (std::cmp::Ordering::Less, _) => None,
            (std::cmp::Ordering::Equal, Some(rows)) => (rows > seen.rows).then_some(seen.rows),
            // Of a generation that was sealed meanwhile all rows are looked at: they are in another order.
            _ => Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each shard its number, epoch, generation and rows.
    fn reach<const N: usize>(shards: [(u128, u64, u64, u64); N]) -> Reach {
        let shard = |(id, epoch, generation, rows)| (Uuid::from_u128(id), InShard { epoch, generation, rows });
        Reach(Arc::new(shards.map(shard).into()))
    }

    #[test]
    fn what_came_since_is_told_apart_while_its_generation_is_not_merged() {
        let (seen, newer) = (reach([(1, 1, 4, 7)]), reach([(1, 1, 6, 2)]));
        assert!(seen.is_continued(&newer, |_| 3));
        assert!(!seen.is_continued(&newer, |_| 4));
        assert!(!seen.is_continued(&newer, |_| 5));
    }

    #[test]
    fn another_writer_may_have_found_less_of_the_log() {
        assert!(!reach([(1, 1, 4, 7)]).is_continued(&reach([(1, 2, 4, 6)]), |_| 0));
        assert!(!reach([(1, 1, 4, 7), (2, 1, 1, 1)]).is_continued(&reach([(1, 1, 4, 7), (2, 2, 2, 0)]), |_| 0));
    }

    #[test]
    fn a_new_shard_is_told_apart_while_nothing_of_it_is_merged() {
        let (seen, newer) = (reach([(1, 1, 4, 7)]), reach([(1, 1, 4, 7), (2, 1, 2, 0)]));
        assert!(seen.is_continued(&newer, |_| 0));
        assert!(!seen.is_continued(&newer, |id| u64::from(id == Uuid::from_u128(2))));
        assert!(!newer.is_continued(&seen, |_| 0), "a shard went away");
    }

    #[test]
    fn what_both_saw_is_the_less_of_each_shard() {
        let (one, other) = (reach([(1, 1, 4, 7), (2, 1, 3, 9)]), reach([(1, 1, 4, 8), (2, 1, 2, 99)]));
        let both = reach([(1, 1, 4, 7), (2, 1, 2, 99)]);
        assert_eq!(one.meet(&other), both);
        assert_eq!(other.meet(&one), both);
        // Neither says how far the other's writer got.
        assert_eq!(one.meet(&reach([(1, 2, 4, 7), (3, 1, 1, 1)])), reach([]));
    }
}
