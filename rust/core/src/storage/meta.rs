//! What a store persists about itself, in the schema metadata of its dataset.
//!
//! Written with the first version of the table, so that a table either has all of it or is not a store
//! of ours. The values belong to the store: an explicit option that contradicts one is an error.

use std::collections::HashMap;
use std::time::Duration;

use lance_context_spec::{Error, OpenOptions, Result, SchemaSpec};

use super::writer;

const FORMAT: &str = "lance-context:format";
const KIND: &str = "lance-context:kind";
const SCHEMA: &str = "lance-context:schema";
const SEAL_ON_ADD: &str = "lance-context:seal_on_add";
const FSYNC: &str = "lance-context:fsync";
const GC_GRACE_MS: &str = "lance-context:gc_grace_ms";
const MEMTABLE_ROWS: &str = "lance-context:memtable_rows";
const MEMTABLE_BATCHES: &str = "lance-context:memtable_batches";

/// The format this code writes; a greater one is refused.
const FORMAT_VERSION: u32 = 1;

const DEFAULT_GC_GRACE: Duration = Duration::from_secs(300);

/// The persisted identity and promises of a store.
#[derive(Debug, Clone)]
pub struct Meta {
    /// Which kind of store it is.
    pub kind: String,
    /// Its schema.
    pub schema: SchemaSpec,
    /// Whether an add seals.
    pub seal_on_add: bool,
    /// Whether an add syncs to the device.
    pub fsync: bool,
    /// How long superseded files stay.
    pub gc_grace: Duration,
    /// Most rows and batches of a memtable, as lance is told: what a log was written under can be replayed only
    /// under as much or more.
    pub memtable_rows: usize,
    pub memtable_batches: usize,
}

impl Meta {
    /// What a new store will persist.
    pub fn create(kind: &str, schema: SchemaSpec, options: &OpenOptions) -> Self {
        Self {
            kind: kind.to_owned(),
            schema,
            seal_on_add: options.seal_on_add.unwrap_or(false),
            fsync: options.fsync.unwrap_or(false),
            gc_grace: options.gc_grace.unwrap_or(DEFAULT_GC_GRACE),
            memtable_rows: writer::MEMTABLE_ROWS,
            memtable_batches: writer::MEMTABLE_BATCHES,
        }
    }

    /// The metadata entries that carry it.
    pub fn entries(&self) -> HashMap<String, String> {
        HashMap::from([
            (FORMAT.to_owned(), FORMAT_VERSION.to_string()),
            (KIND.to_owned(), self.kind.clone()),
            (SCHEMA.to_owned(), self.schema.to_json()),
            (SEAL_ON_ADD.to_owned(), self.seal_on_add.to_string()),
            (FSYNC.to_owned(), self.fsync.to_string()),
            (GC_GRACE_MS.to_owned(), self.gc_grace.as_millis().to_string()),
            (MEMTABLE_ROWS.to_owned(), self.memtable_rows.to_string()),
            (MEMTABLE_BATCHES.to_owned(), self.memtable_batches.to_string()),
        ])
    }

    /// The kind of a store; `None`: the table is not a store of ours.
    pub fn kind_of(entries: &HashMap<String, String>) -> Option<&str> {
        entries.get(KIND).map(String::as_str)
    }

    /// Reads it back, for a kind of store with that key column. `Ok(None)`: the table is not a store of ours. A
    /// missing option takes the caller's value for this handle; a contradicted one is [`Error::OptionMismatch`].
    pub fn read(
        store: &str,
        key: &str,
        entries: &HashMap<String, String>,
        options: &OpenOptions,
    ) -> Result<Option<Self>> {
        let (Some(format), Some(kind), Some(schema)) = (entries.get(FORMAT), entries.get(KIND), entries.get(SCHEMA))
        else {
            return Ok(None);
        };
        if format.parse::<u32>().map_or(true, |f| f > FORMAT_VERSION) {
            return Err(Error::Damaged {
                store: store.to_owned(),
                message: format!(
                    "it has format `{format}` and this version reads up to {FORMAT_VERSION}; upgrade lance-context"
                ),
                source: None,
            });
        }
        let damaged = |key: &str, value: &str| Error::Damaged {
            store: store.to_owned(),
            message: format!("its metadata `{key}` holds `{value}`"),
            source: None,
        };
        let schema = SchemaSpec::parse_keyed(key, schema).map_err(|e| damaged(SCHEMA, &e.to_string()))?;
        let defaults = Self::create(kind, schema, options);
        let flag = |key: &str, default: bool| match entries.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| damaged(key, text)),
        };
        let gc_grace = match entries.get(GC_GRACE_MS) {
            None => defaults.gc_grace,
            Some(text) => Duration::from_millis(text.parse().map_err(|_| damaged(GC_GRACE_MS, text))?),
        };
        let limit = |key: &str, ours: usize| match entries.get(key) {
            None => Ok(ours),
            Some(text) => text.parse::<usize>().map(|stored| stored.max(ours)).map_err(|_| damaged(key, text)),
        };
        let memtable_rows = limit(MEMTABLE_ROWS, defaults.memtable_rows)?;
        let memtable_batches = limit(MEMTABLE_BATCHES, defaults.memtable_batches)?;
        let seal_on_add = flag(SEAL_ON_ADD, defaults.seal_on_add)?;
        let fsync = flag(FSYNC, defaults.fsync)?;
        agree(store, "seal_on_add", seal_on_add, options.seal_on_add, |v| python_bool(*v))?;
        agree(store, "fsync", fsync, options.fsync, |v| python_bool(*v))?;
        agree(store, "gc_grace", gc_grace, options.gc_grace, |v| format!("{} s", v.as_secs_f64()))?;
        Ok(Some(Self { seal_on_add, fsync, gc_grace, memtable_rows, memtable_batches, ..defaults }))
    }
}

fn python_bool(value: bool) -> String {
    if value { "True".to_owned() } else { "False".to_owned() }
}

fn agree<T: PartialEq>(
    store: &str,
    option: &'static str,
    stored: T,
    given: Option<T>,
    show: impl Fn(&T) -> String,
) -> Result<()> {
    match given {
        Some(given) if given != stored => {
            Err(Error::OptionMismatch { store: store.to_owned(), option, stored: show(&stored), given: show(&given) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log was written under them, and a claim with less could not replay it.
    #[test]
    fn memtable_limits_are_kept_and_only_ever_raised() {
        let options = OpenOptions::default();
        let schema = SchemaSpec::parse(r#"{"id": "string"}"#).unwrap();
        let mut entries = Meta::create("generic", schema, &options).entries();
        let limits = |entries: &HashMap<String, String>| {
            let meta = Meta::read("s", "id", entries, &options).unwrap().unwrap();
            (meta.memtable_rows, meta.memtable_batches)
        };
        let ours = (writer::MEMTABLE_ROWS, writer::MEMTABLE_BATCHES);
        assert_eq!(limits(&entries), ours);
        entries.insert(MEMTABLE_ROWS.to_owned(), (ours.0 + 1).to_string());
        entries.insert(MEMTABLE_BATCHES.to_owned(), (ours.1 - 1).to_string());
        assert_eq!(limits(&entries), (ours.0 + 1, ours.1));
        entries.insert(MEMTABLE_ROWS.to_owned(), "many".to_owned());
        assert!(matches!(Meta::read("s", "id", &entries, &options), Err(Error::Damaged { .. })));
    }
}
