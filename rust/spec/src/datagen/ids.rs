//! Item ids: `root` or `root/step:branch/step:branch…`.
//!
//! Inside a segment `/`, `:`, `%` and control characters are percent-encoded (upper-case hex of their
//! UTF-8 bytes) and nothing else is, so that an id has exactly one text and a text at most one id.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};

/// The id of an item. Equal when the texts are; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ItemId(Arc<str>);

impl ItemId {
    /// The id of the root item for a raw key, such as a file path or a url.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key.
    pub fn from_source_key(key: &str) -> Result<Self> {
        if key.is_empty() {
            return Err(invalid("key", "a source key has at least one character".to_owned()));
        }
        Ok(Self(encode(key).into()))
    }

    /// Reads id text.
    ///
    /// # Errors
    /// `InvalidArgument` for text that is no id; it tells where raw keys go.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(text).map_err(|message| invalid("item_id", message))
    }

    /// Reads id text; the error is the message alone.
    pub(crate) fn read(text: &str) -> std::result::Result<Self, String> {
        check(text)?;
        Ok(Self(text.into()))
    }

    /// The id of child number `branch` that step `step` (raw text) expands this item into.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty step or a negative branch.
    pub fn child(&self, step: &str, branch: i64) -> Result<Self> {
        if step.is_empty() {
            return Err(invalid("step", "a step name has at least one character".to_owned()));
        }
        if branch < 0 {
            return Err(invalid("branch", format!("branches count from 0, `{branch}` is negative")));
        }
        Ok(Self(format!("{}/{}:{branch}", self.0, encode(step)).into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The item that this one was expanded from; `None` for a root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()))
    }

    /// The root item; a root's is itself.
    #[must_use]
    pub fn root(&self) -> Self {
        self.0.split_once('/').map_or_else(|| self.clone(), |(root, _)| Self(root.into()))
    }

    /// The step that expanded the parent into this item, decoded; `None` for a root.
    #[must_use]
    pub fn origin_step(&self) -> Option<String> {
        self.last_step().map(|(step, _)| decode(step))
    }

    /// The number of this item among its step's children; `None` for a root.
    #[must_use]
    pub fn branch_idx(&self) -> Option<i64> {
        self.last_step().and_then(|(_, branch)| branch.parse().ok())
    }

    /// Whether the item has no parent.
    #[must_use]
    pub fn is_root(&self) -> bool {
        !self.0.contains('/')
    }

    /// The raw key of the root, decoded.
    #[must_use]
    pub fn source_key(&self) -> String {
        decode(self.0.split('/').next().unwrap_or_default())
    }

    /// How many steps below its root the item is.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.bytes().filter(|byte| *byte == b'/').count()
    }

    /// Whether this is `ancestor` or below it.
    #[must_use]
    pub fn is_within(&self, ancestor: &Self) -> bool {
        self.0.strip_prefix(&*ancestor.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn last_step(&self) -> Option<(&str, &str)> {
        self.0.rsplit_once('/').and_then(|(_, last)| last.split_once(':'))
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for ItemId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ItemId({:?})", self.0)
    }
}

impl FromStr for ItemId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// By segments: step names by text, branches by number, a parent before its children. Sorted ids are
/// therefore the tree in preorder.
impl Ord for ItemId {
    fn cmp(&self, other: &Self) -> Ordering {
        // Leading segments that both share decide nothing, and siblings share all but the last.
        let shared = self.0.bytes().zip(other.0.bytes()).take_while(|(a, b)| a == b).count();
        let from = self.0.as_bytes()[..shared].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        self.0[from..].split('/').map(order_key).cmp(other.0[from..].split('/').map(order_key))
    }
}

impl PartialOrd for ItemId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Step and branch of a segment; the branch digits by length first are in numeric order.
fn order_key(segment: &str) -> (&str, usize, &str) {
    let (step, branch) = segment.split_once(':').unwrap_or((segment, ""));
    (step, branch.len(), branch)
}

fn invalid(argument: &str, message: String) -> Error {
    Error::InvalidArgument { argument: argument.to_owned(), message }
}

const RAW: &str = "a raw key goes through `from_source_key`";

fn check(text: &str) -> std::result::Result<(), String> {
    let mut segments = text.split('/');
    let root = segments.next().unwrap_or_default();
    if root.contains(':') {
        return Err(format!("`{text}` has a `:` in its root `{root}`; {RAW}"));
    }
    check_name(text, root)?;
    for segment in segments {
        let Some((step, branch)) = segment.split_once(':') else {
            return Err(format!("`{text}` has `{segment}` behind a `/`, where `step:branch` stands; {RAW}"));
        };
        check_name(text, step)?;
        check_branch(text, branch)?;
    }
    Ok(())
}

fn check_name(text: &str, name: &str) -> std::result::Result<(), String> {
    if name.is_empty() {
        return Err(format!("`{text}` has an empty segment; {RAW}"));
    }
    let decoded = percent_decode_str(name).decode_utf8().ok();
    if decoded.is_some_and(|decoded| encode(&decoded) == name) {
        return Ok(());
    }
    let id = encode(name);
    Err(format!("`{}` is not encoded as id text is (as a key it would be `{id}`); {RAW}", name.escape_debug()))
}

fn check_branch(text: &str, branch: &str) -> std::result::Result<(), String> {
    let digits = branch.bytes().all(|byte| byte.is_ascii_digit());
    let plain = branch == "0" || !branch.starts_with('0');
    if digits && plain && branch.parse::<i64>().is_ok() {
        return Ok(());
    }
    Err(format!("`{text}` has the branch `{branch}`, which is no number from 0 in plain digits; {RAW}"))
}

fn encode(raw: &str) -> String {
    let mut encoded = String::with_capacity(raw.len());
    for c in raw.chars() {
        if c.is_control() || matches!(c, '/' | ':' | '%') {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing into a string cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        } else {
            encoded.push(c);
        }
    }
    encoded
}

/// The raw text of a segment that `check` let pass, which is UTF-8 once decoded.
fn decode(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests;
