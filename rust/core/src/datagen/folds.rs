//! Items that were folded lately, and how far was read for them: the next fold reads what came since.
//!
//! A state is only ever continued by events that stand behind its last one; for anything else the item is folded from
//! zero, so that both ways give the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lance_context_spec::datagen::{Extension, FoldState, ItemId, Stored};
use moka::future::Cache;

use crate::storage::Reach;

/// Memory for states, per handle.
const BYTES: u64 = 64 << 20;

/// What a state takes beside its events.
const STATE_BYTES: usize = 512;

pub(super) struct Folds(Cache<ItemId, Arc<Fold>>);

/// One item.
pub(super) struct Fold(Mutex<Kept>);

struct Kept {
    state: FoldState,
    reach: Reach,
}

impl std::fmt::Debug for Folds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folds").field("kept", &self.0.entry_count()).finish_non_exhaustive()
    }
}

impl Default for Folds {
    fn default() -> Self {
        let weigh =
            |_: &ItemId, fold: &Arc<Fold>| u32::try_from(fold.kept().state.bytes() + STATE_BYTES).unwrap_or(u32::MAX);
        Self(Cache::builder().max_capacity(BYTES).weigher(weigh).build())
    }
}

impl Folds {
    /// What is kept of `ids`.
    pub async fn of<'a>(&self, ids: &'a [ItemId]) -> HashMap<&'a ItemId, Arc<Fold>> {
        let mut kept = HashMap::with_capacity(ids.len());
        for id in ids {
            if let Some(fold) = self.0.get(id).await {
                kept.insert(id, fold);
            }
        }
        kept
    }

    /// Folds an item from all of its events, and asks its state.
    pub async fn fold<T>(
        &self,
        id: &ItemId,
        events: Vec<Stored>,
        reach: &Reach,
        ask: impl FnOnce(&FoldState) -> T,
    ) -> Option<T> {
        let state = FoldState::new(id.clone(), events)?;
        let answer = ask(&state);
        self.0.insert(id.clone(), Arc::new(Fold(Mutex::new(Kept { state, reach: reach.clone() })))).await;
        Some(answer)
    }

    /// Folds an item that is kept from the events that came since, and asks its state; `None` if that takes all of them.
    pub async fn advance<T>(
        &self,
        id: &ItemId,
        fold: &Arc<Fold>,
        since: Vec<Stored>,
        reach: &Reach,
        ask: impl FnOnce(&FoldState) -> T,
    ) -> Option<T> {
        let has_grown = !since.is_empty();
        let answer = fold.advance(since, reach, ask)?;
        if has_grown {
            // It is weighed when it comes in.
            self.0.insert(id.clone(), Arc::clone(fold)).await;
        }
        Some(answer)
    }
}

impl Fold {
    /// How far was read for it.
    pub fn reach(&self) -> Reach {
        self.kept().reach.clone()
    }

    fn advance<T>(&self, since: Vec<Stored>, reach: &Reach, ask: impl FnOnce(&FoldState) -> T) -> Option<T> {
        let mut kept = self.kept();
        match kept.state.extend(since) {
            Extension::Continued => {
                // Perhaps less far than another read that was faster: then some of it is read once more.
                kept.reach = reach.clone();
                Some(ask(&kept.state))
            }
            Extension::Refold => None,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A state changes as a whole, after everything that could go wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
