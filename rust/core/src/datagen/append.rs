//! One append: check and write as one, in the writer task.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lance_context_spec::datagen::{self as log, Event, FoldState, Head, Intent, ItemId, check_batch, lookups};
use lance_context_spec::{Result, SchemaSpec};

use super::cursor::Stamp;
use super::heads::Heads;
use super::{rows, texts};
use crate::storage::{Outcome, Plan, Planned, Stored};

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendedEvents {
    /// How many events were sent.
    pub count: usize,
    /// How many of them were not stored yet.
    pub new: usize,
}

/// A batch of events that waits to be checked and written.
pub(super) struct Append {
    events: Vec<Event>,
    intent: Intent,
    ids: Vec<ItemId>,
    schema: Arc<SchemaSpec>,
    /// Every column but the bytes of blobs, which no check looks at.
    columns: Vec<String>,
    heads: Arc<Heads>,
}

/// What an append came to, until it is durable.
struct Accepted {
    appended: AppendedEvents,
    epoch: u64,
    heads: HashMap<ItemId, Head>,
}

impl Append {
    pub fn new(events: Vec<Event>, intent: Intent, schema: Arc<SchemaSpec>, heads: Arc<Heads>) -> Result<Self> {
        let mut seen = HashSet::new();
        let ids = events.iter().map(|event| &event.item_id).filter(|id| seen.insert(*id)).cloned().collect();
        let columns = schema.resolve_projection(None)?;
        Ok(Self { events, intent, ids, schema, columns, heads })
    }

    async fn planned(&self, stored: &Stored<'_>) -> Result<Planned> {
        let epoch = stored.epoch();
        let known = self.heads.take(epoch, self.ids.iter());
        let all_known = known.len() == self.ids.len();
        let plan = if all_known { self.check(stored, &known).await.ok() } else { None };
        let plan = match plan {
            Some(plan) => plan,
            // A head may be behind what another writer wrote through its own shard: nothing is refused on its account.
            None => self.check(stored, &self.read_heads(stored).await?).await?,
        };
        let new: Vec<&Event> =
            self.events.iter().zip(&plan.new).filter_map(|(event, new)| new.then_some(event)).collect();
        let appended = AppendedEvents { count: self.events.len(), new: new.len() };
        let stamp = Stamp {
            shard: stored.shard_id().to_string(),
            // Lance counts epochs one claim at a time.
            epoch: i64::try_from(epoch).unwrap_or(i64::MAX),
            before: self.heads.number(epoch, new.len()),
        };
        let batch = if new.is_empty() { None } else { Some(rows::encode(&self.schema, &new, &stamp)?) };
        let accepted = Accepted { appended, epoch, heads: plan.heads };
        Ok(Planned { rows: batch.into_iter().collect(), outcome: Box::new(accepted) })
    }

    async fn check(&self, stored: &Stored<'_>, heads: &HashMap<ItemId, Head>) -> Result<log::Plan> {
        let wanted: Vec<String> = lookups(&self.events, heads).into_iter().map(str::to_owned).collect();
        let mut found = HashMap::with_capacity(wanted.len());
        if !wanted.is_empty() {
            let rows = stored.get_many(&wanted, &self.columns).await?;
            let there = rows.into_iter().flatten().collect::<Vec<_>>();
            let named = rows::decode(&self.schema, &there)?.into_iter();
            let id = |event: &log::Stored| match event {
                log::Stored::Event(event) => Some(event.event_id.clone()),
                log::Stored::Damaged(damaged) => damaged.event_id.clone(),
            };
            found.extend(named.filter_map(|event| Some((id(&event)?, event))));
        }
        check_batch(&self.events, self.intent, heads, &found)
    }

    /// The heads of the items as they are stored.
    async fn read_heads(&self, stored: &Stored<'_>) -> Result<HashMap<ItemId, Head>> {
        let batches = stored.find_many("item_id", &texts(&self.ids), &self.columns).await?;
        let mut by_item: HashMap<&str, Vec<log::Stored>> =
            self.ids.iter().map(|id| (id.as_str(), Vec::new())).collect();
        for event in rows::decode(&self.schema, &batches)? {
            let of = match &event {
                log::Stored::Event(event) => by_item.get_mut(event.item_id.as_str()),
                log::Stored::Damaged(damaged) => damaged.item_id.as_deref().and_then(|id| by_item.get_mut(id)),
            };
            if let Some(of) = of {
                of.push(event);
            }
        }
        let states = self.ids.iter().filter_map(|id| FoldState::new(id.clone(), by_item.remove(id.as_str())?));
        Ok(states.map(|state| (state.item_id().clone(), state.head())).collect())
    }
}

impl Plan for Append {
    fn plan<'a>(&'a self, stored: &'a Stored<'a>) -> BoxFuture<'a, Result<Planned>> {
        self.planned(stored).boxed()
    }

    fn written(&self, outcome: Outcome) -> Outcome {
        match outcome.downcast::<Accepted>() {
            Ok(accepted) => {
                self.heads.keep(accepted.epoch, &accepted.heads);
                Box::new(accepted.appended)
            }
            Err(outcome) => outcome,
        }
    }
}
