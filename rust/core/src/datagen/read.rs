//! Questions to the log: one item through the index on its id, all items in one pass.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use lance_context_spec::datagen::{
    Cell, Event, Failure, FoldState, FoldedItem, ItemId, ItemTree, OUTLINE_COLUMNS, Overview, OverviewBuilder, Status,
    Stored, TreeBounds, TreeSelection,
};
use lance_context_spec::{Error, Filter, Result};

use super::cursor::Cursor;
use super::{DatagenStore, filter, rows, texts};
use crate::storage::{Reach, Scan};

/// Events of a page of [`DatagenStore::events_since`].
const PAGE_EVENTS: usize = 1_000;

/// A pass over a log that is merged and collected all the time is begun so often.
const PASSES: u32 = 10;

/// The states of so many items are looked up one by one; of more, in a pass over all.
const FEW_ITEMS: usize = 256;

/// Memory for what the last pass found, per handle.
const PASS_BYTES: usize = 64 << 20;

/// A pass over all events.
#[derive(Debug)]
pub(super) struct Pass {
    overview: OverviewBuilder,
    reach: Reach,
}

/// Some events in the order of their cursors.
#[derive(Debug, Clone)]
pub struct EventPage {
    /// Each event with the cursor behind it.
    pub events: Vec<(String, Event)>,
    /// The cursor behind the last row that was read, an unreadable one too; `None` when nothing is behind it.
    pub next: Option<String>,
}

impl DatagenStore {
    /// The latest state of an item; `None` if it was never created.
    ///
    /// # Errors
    /// [`Error::Storage`]; [`Error::BlobDamaged`] for a blob that is asked for and is not what was written.
    pub async fn fold_item(&self, item_id: &ItemId, load_blobs: bool) -> Result<Option<FoldedItem>> {
        Ok(self.fold_items(std::slice::from_ref(item_id), load_blobs).await?.pop())
    }

    /// The latest states of those of `ids` that exist, in that order.
    ///
    /// # Errors
    /// As [`DatagenStore::fold_item`].
    pub async fn fold_items(&self, ids: &[ItemId], load_blobs: bool) -> Result<Vec<FoldedItem>> {
        let mut folded =
            if load_blobs { self.fold_with_blobs(ids).await? } else { self.fold_forward(ids, FoldState::item).await? };
        Ok(ids.iter().filter_map(|id| folded.remove(id)).collect())
    }

    /// The last event of an item that counts; `None` if it was never created, or if none of its events counts.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn last_event_id(&self, item_id: &ItemId) -> Result<Option<String>> {
        let heads = self.fold_forward(std::slice::from_ref(item_id), FoldState::head).await?;
        Ok(heads.into_values().find_map(|head| head.last_event_id))
    }

    /// Folds from zero: blobs are not kept.
    async fn fold_with_blobs(&self, ids: &[ItemId]) -> Result<HashMap<ItemId, FoldedItem>> {
        let mut events = by_item(self.find("item_id", ids, self.schema().names()).await?);
        let states = ids.iter().filter_map(|id| FoldState::new(id.clone(), events.remove(id.as_str())?));
        let folded: HashMap<_, _> = states.map(|state| (state.item_id().clone(), state.item())).collect();
        folded.values().try_for_each(|item| self.verify(item))?;
        Ok(folded)
    }

    /// Continues what is kept of earlier folds, folds the rest from zero, and asks the states.
    async fn fold_forward<T>(&self, ids: &[ItemId], ask: impl Fn(&FoldState) -> T) -> Result<HashMap<ItemId, T>> {
        let kept = self.folds.of(ids).await;
        let mut folded = HashMap::with_capacity(ids.len());
        if let Some(since) = kept.values().map(|fold| fold.reach()).reduce(|one, other| one.meet(&other)) {
            let known: Vec<ItemId> = kept.keys().map(|id| (*id).clone()).collect();
            let (mut events, reach, is_all) = self.find_since("item_id", &known, Some(since)).await?;
            for (id, fold) in &kept {
                let since = events.remove(id.as_str()).unwrap_or_default();
                let item = if is_all {
                    self.folds.fold(id, since, &reach, &ask).await
                } else {
                    self.folds.advance(id, fold, since, &reach, &ask).await
                };
                folded.extend(item.map(|item| ((*id).clone(), item)));
            }
        }
        let rest: Vec<ItemId> = ids.iter().filter(|id| !folded.contains_key(*id)).cloned().collect();
        if !rest.is_empty() {
            let (mut events, reach, _) = self.find_since("item_id", &rest, None).await?;
            for id in rest {
                let events = events.remove(id.as_str()).unwrap_or_default();
                if let Some(answer) = self.folds.fold(&id, events, &reach, &ask).await {
                    folded.insert(id, answer);
                }
            }
        }
        Ok(folded)
    }

    /// The events by item, without the bytes of blobs; how far was read; and whether that is all of them.
    async fn find_since(
        &self,
        column: &'static str,
        ids: &[ItemId],
        since: Option<Reach>,
    ) -> Result<(HashMap<String, Vec<Stored>>, Reach, bool)> {
        let columns = self.schema().resolve_projection(None)?;
        let found = self.storage().find_since(column, texts(ids), columns, None, since).await?;
        Ok((by_item(rows::decode(self.schema(), &found.rows)?), found.reach, found.is_all))
    }

    fn verify(&self, item: &FoldedItem) -> Result<()> {
        let values = item.fields.values().flat_map(|field| &field.values);
        values.into_iter().try_for_each(|value| value.cell.verify(&value.event_id))
    }

    /// The events of an item, by attempt, epoch and seq, without the bytes of blobs.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn item_events(&self, item_id: &ItemId) -> Result<Vec<Event>> {
        self.events_of("item_id", item_id).await
    }

    /// The events of a root and of everything below it, by item, attempt, epoch and seq, without the bytes of blobs.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn root_events(&self, root: &ItemId) -> Result<Vec<Event>> {
        self.events_of("root_item_id", &root.root()).await
    }

    async fn events_of(&self, column: &'static str, id: &ItemId) -> Result<Vec<Event>> {
        let columns = self.schema().resolve_projection(None)?;
        let stored = self.find(column, std::slice::from_ref(id), columns).await?;
        let mut events: Vec<Event> = stored
            .into_iter()
            .filter_map(|stored| match stored {
                Stored::Event(event) => Some(event.as_ref().clone()),
                Stored::Damaged(_) => None,
            })
            .collect();
        events.sort_by(|a, b| place(a).cmp(&place(b)));
        Ok(events)
    }

    async fn find(&self, column: &'static str, ids: &[ItemId], columns: Vec<String>) -> Result<Vec<Stored>> {
        let batches = self.storage().find_many(column, texts(ids), columns, None).await?;
        rows::decode(self.schema(), &batches)
    }

    /// The failures of an item, recovered ones included, in order.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn item_failures(&self, item_id: &ItemId) -> Result<Vec<Failure>> {
        Ok(self.fold_item(item_id, false).await?.map(|item| item.failures).unwrap_or_default())
    }

    /// The items that fulfil `filter`, in the order of their ids.
    ///
    /// # Errors
    /// The errors of a filter, [`Error::Storage`].
    pub async fn items(
        &self,
        filter: Option<&Filter>,
        limit: Option<usize>,
        after: Option<&ItemId>,
    ) -> Result<Vec<FoldedItem>> {
        let chosen = self.scanned(|overview| {
            let mut summaries = overview.summaries();
            if let Some(filter) = filter {
                summaries = filter::matching(filter, summaries)?;
            }
            let behind = summaries.iter().map(|item| &item.item_id).filter(|id| after.is_none_or(|after| *id > after));
            Ok(behind.take(limit.unwrap_or(usize::MAX)).cloned().collect::<Vec<ItemId>>())
        });
        self.fold_items(&chosen.await??, false).await
    }

    /// The items that are running and have a failure that was not recovered.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn failed_items(&self) -> Result<Vec<FoldedItem>> {
        let failed = self.scanned(|overview| {
            let summaries = overview.summaries().into_iter();
            summaries.filter(|item| item.failed).map(|item| item.item_id.clone()).collect::<Vec<ItemId>>()
        });
        self.fold_items(&failed.await?, false).await
    }

    /// Those of `ids` that have not ended, in that order.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn pending(&self, ids: Vec<ItemId>) -> Result<Vec<ItemId>> {
        let statuses = self.statuses_of(&ids).await?;
        let ended = |id: &ItemId| statuses.get(id).is_some_and(|status| status.is_terminal());
        Ok(ids.into_iter().filter(|id| !ended(id)).collect())
    }

    /// The statuses of those of `ids` that exist.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn root_item_statuses(&self, ids: Vec<ItemId>) -> Result<Vec<(ItemId, String)>> {
        let statuses = self.statuses_of(&ids).await?;
        let status = |id: ItemId| statuses.get(&id).map(|status| status.name().to_owned()).map(|status| (id, status));
        Ok(ids.into_iter().filter_map(status).collect())
    }

    /// The statuses of those of `ids` that exist, and perhaps of others: through the index where they are few.
    async fn statuses_of(&self, ids: &[ItemId]) -> Result<HashMap<ItemId, Status>> {
        let statuses = |overview: &mut OverviewBuilder| {
            overview.summaries().into_iter().map(|item| (item.item_id.clone(), item.status)).collect()
        };
        if ids.len() > FEW_ITEMS {
            return self.scanned(statuses).await;
        }
        let found = self.storage().find_many("item_id", texts(ids), outline_columns(), None).await?;
        let mut overview = OverviewBuilder::default();
        found.iter().try_for_each(|batch| self.survey(&mut overview, batch))?;
        Ok(statuses(&mut overview))
    }

    /// Counts over all items.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn overview(&self) -> Result<Overview> {
        self.scanned(OverviewBuilder::overview).await
    }

    /// Asks an overview of the light columns of every event. What an earlier one read is not read again; if files were
    /// collected meanwhile, it begins anew.
    async fn scanned<T>(&self, ask: impl FnOnce(&mut OverviewBuilder) -> T) -> Result<T> {
        let mut kept = self.pass.lock().await;
        let mut attempt = 1;
        let mut pass = loop {
            match self.pass(kept.take()).await {
                Err(error) if error.retryable() && attempt < PASSES => attempt += 1,
                outcome => break outcome?,
            }
        };
        let answer = ask(&mut pass.overview);
        if pass.overview.bytes() <= PASS_BYTES {
            *kept = Some(pass);
        }
        Ok(answer)
    }

    async fn pass(&self, before: Option<Pass>) -> Result<Pass> {
        let (mut overview, since) = before.map_or_else(Default::default, |pass| (pass.overview, Some(pass.reach)));
        let mut rows = self.storage().stream_since(scan(outline_columns()), since).await?;
        if rows.is_all() {
            overview = OverviewBuilder::default();
        }
        while let Some(batch) = rows.next().await.transpose()? {
            self.survey(&mut overview, &batch)?;
        }
        Ok(Pass { overview, reach: rows.reach().clone() })
    }

    fn survey(&self, overview: &mut OverviewBuilder, batch: &RecordBatch) -> Result<()> {
        rows::outlines(self.schema(), batch, |outline| match outline {
            Ok(outline) => overview.push(&outline),
            Err(damaged) => overview.push_damaged(&damaged),
        })
    }

    /// The next events behind `cursor`, without the bytes of blobs; without a cursor, the first of all. Every event that
    /// becomes durable later lies behind the cursors of those before it. A cursor is good for any handle of the log.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for text that is no cursor, [`Error::Storage`].
    pub async fn events_since(&self, cursor: Option<&str>) -> Result<EventPage> {
        let mut cursor = cursor.map_or_else(|| Ok(Cursor::default()), Cursor::parse)?;
        let columns = self.schema().resolve_projection(None)?;
        let asked =
            Scan { limit: Some(PAGE_EVENTS), filter: cursor.condition(), order: Cursor::order(), ..scan(columns) };
        let batches = self.storage().list(asked).await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let places = rows::places(&batches)?;
        let mut events = Vec::with_capacity(rows);
        for ((shard, epoch, number), stored) in places.into_iter().zip(rows::decode(self.schema(), &batches)?) {
            cursor.advance(&shard, epoch, number);
            if let Stored::Event(event) = stored {
                events.push((cursor.text(), event.as_ref().clone()));
            }
        }
        Ok(EventPage { events, next: (rows == PAGE_EVENTS).then(|| cursor.text()) })
    }

    /// The bytes of the blob that an event wrote.
    ///
    /// # Errors
    /// [`Error::EventNotFound`] when there is no such event or it wrote no blob, [`Error::BlobDamaged`] when the bytes
    /// are not what was written, [`Error::Storage`].
    pub async fn get_blob(&self, event_id: &str) -> Result<Vec<u8>> {
        let missing =
            |message: &str| Error::EventNotFound { event_id: event_id.to_owned(), message: message.to_owned() };
        let row = self.storage().get(event_id, self.schema().names(), None).await?;
        let row = row.ok_or_else(|| missing("there is no such event"))?;
        let field = match rows::decode(self.schema(), &[row])?.pop() {
            Some(Stored::Event(event)) => event.field.clone(),
            _ => None,
        };
        match field.map(|field| field.value) {
            Some(cell @ Cell::Blob { .. }) => {
                cell.verify(event_id)?;
                match cell {
                    Cell::Blob { bytes: Some(bytes), .. } => Ok(bytes),
                    _ => Err(missing("its blob has no bytes")),
                }
            }
            _ => Err(missing("it wrote no blob")),
        }
    }

    /// The items at and below `root`, linked parent to child.
    ///
    /// # Errors
    /// [`Error::ItemNotFound`] when there is none, [`Error::Storage`].
    pub async fn item_tree(&self, root: &ItemId, max_items: usize, max_depth: Option<usize>) -> Result<ItemTree> {
        let columns = ["event_id", "item_id"].map(str::to_owned).to_vec();
        let batches = self.storage().find_many("root_item_id", texts(&[root.root()]), columns, None).await?;
        let mut known = Vec::new();
        for stored in rows::item_ids(&batches)? {
            if let Ok(id) = ItemId::parse(&stored) {
                known.push(id);
            }
        }
        let bounds = TreeBounds { max_items, max_depth };
        let selection = TreeSelection::of(root, known, bounds)?;
        ItemTree::build(root, self.fold_items(&selection.item_ids, false).await?, selection.total)
    }
}

fn outline_columns() -> Vec<String> {
    OUTLINE_COLUMNS.map(str::to_owned).to_vec()
}

fn by_item(events: Vec<Stored>) -> HashMap<String, Vec<Stored>> {
    let mut by_item: HashMap<String, Vec<Stored>> = HashMap::new();
    for event in events {
        let of = match &event {
            Stored::Event(event) => event.item_id.as_str().to_owned(),
            Stored::Damaged(damaged) => damaged.item_id.clone().unwrap_or_default(),
        };
        by_item.entry(of).or_default().push(event);
    }
    by_item
}

fn place(event: &Event) -> (&ItemId, i32, &str, i64) {
    (&event.item_id, event.attempt, &event.writer_epoch, event.item_seq)
}

fn scan(columns: Vec<String>) -> Scan {
    Scan { filter: None, columns, order: Vec::new(), limit: None, after: None, offset: 0, read: None }
}
