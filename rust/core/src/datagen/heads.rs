//! The heads of items that were written lately, so that most appends read nothing.
//!
//! A head is taken out while an append of its item is planned, and put back when the append is durable, in the order
//! of the writes; whatever happens in between leaves no stale head behind. Heads are worth nothing once another
//! writer had the shard, so all go when the writer's epoch changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lance_context_spec::datagen::{Head, ItemId};

/// Most heads that are kept; at one more, all others go and come back as they are asked for.
const KEPT: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Heads(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    epoch: u64,
    /// How many events were numbered under this epoch.
    numbered: i64,
    heads: HashMap<ItemId, Head>,
}

impl Heads {
    /// Takes out what is known of these items under this epoch.
    pub fn take<'a>(&self, epoch: u64, ids: impl Iterator<Item = &'a ItemId>) -> HashMap<ItemId, Head> {
        let mut known = self.of(epoch);
        ids.filter_map(|id| known.heads.remove_entry(id)).collect()
    }

    /// Numbers `count` events under this epoch: the number before their first.
    pub fn number(&self, epoch: u64, count: usize) -> i64 {
        let mut known = self.of(epoch);
        let before = known.numbered;
        known.numbered = before.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        before
    }

    /// Keeps heads that became durable under this epoch.
    pub fn keep(&self, epoch: u64, heads: &HashMap<ItemId, Head>) {
        let mut known = self.of(epoch);
        if known.heads.len() + heads.len() > KEPT {
            known.heads.clear();
        }
        known.heads.extend(heads.iter().map(|(id, head)| (id.clone(), head.clone())));
    }

    fn of(&self, epoch: u64) -> MutexGuard<'_, Known> {
        // A panic elsewhere may have left fewer heads than there were, which is no harm.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.epoch != epoch {
            *known = Known { epoch, ..Known::default() };
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use lance_context_spec::datagen::Status;

    use super::*;

    fn head(seq: i64) -> Head {
        Head {
            attempt: 0,
            writer_epoch: "e".into(),
            last_event_id: None,
            last_seq: seq,
            max_seq: seq,
            status: Status::Running,
        }
    }

    fn id(n: usize) -> ItemId {
        ItemId::from_source_key(&n.to_string()).unwrap()
    }

    #[test]
    fn a_head_is_taken_once_and_gone_with_its_epoch() {
        let heads = Heads::default();
        heads.keep(1, &HashMap::from([(id(1), head(1)), (id(2), head(2))]));
        assert_eq!(heads.take(1, [id(1), id(3)].iter()), HashMap::from([(id(1), head(1))]));
        assert!(heads.take(1, [id(1)].iter()).is_empty());
        assert!(heads.take(2, [id(2)].iter()).is_empty());
        assert!(heads.take(1, [id(2)].iter()).is_empty());
    }

    #[test]
    fn they_are_bounded() {
        let heads = Heads::default();
        for n in 0..=KEPT {
            heads.keep(1, &HashMap::from([(id(n), head(1))]));
        }
        assert!(heads.0.lock().unwrap().heads.len() <= KEPT);
        assert_eq!(heads.take(1, [id(KEPT)].iter()).len(), 1);
    }
}
