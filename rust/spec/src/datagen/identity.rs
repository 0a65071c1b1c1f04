//! Checkpoint ids and event ids, which follow from where an event stands.
//!
//! An event id is the uuid5, in namespace [`NAMESPACE`], of: the item id and the checkpoint id, each as
//! its length in bytes (8 bytes, big endian) and its UTF-8, then the ordinal in the checkpoint (8 bytes,
//! big endian). Sending an event again therefore never makes a second one.

use uuid::Uuid;

use super::canonical::Canonical;

/// The namespace of event ids: the uuid5 of `lance-context/datagen-event` in the nil namespace.
pub const NAMESPACE: Uuid = Uuid::from_u128(0x09b8_ec31_fd3f_5050_ae68_8d6b_d5fe_5013);

/// The id of event number `ordinal` of a checkpoint.
#[must_use]
pub fn event_id(item_id: &str, checkpoint_id: &str, ordinal: i64) -> String {
    let mut name = Canonical::default();
    name.text(item_id);
    name.text(checkpoint_id);
    name.number(ordinal);
    Uuid::new_v5(&NAMESPACE, name.bytes()).to_string()
}

/// A checkpoint id: `attempt:writer_epoch:first_seq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointId<'a> {
    /// The stream's attempt.
    pub attempt: i32,
    /// The stream's epoch.
    pub writer_epoch: &'a str,
    /// The `item_seq` of the checkpoint's first event.
    pub first_seq: i64,
}

impl<'a> CheckpointId<'a> {
    /// Reads the text; an epoch may contain `:`. `None` for text that no checkpoint has.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (attempt, rest) = text.split_once(':')?;
        let (writer_epoch, first_seq) = rest.rsplit_once(':')?;
        let parsed = Self { attempt: attempt.parse().ok()?, writer_epoch, first_seq: first_seq.parse().ok()? };
        (parsed.text() == text).then_some(parsed)
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}:{}:{}", self.attempt, self.writer_epoch, self.first_seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_follows_from_its_name() {
        assert_eq!(NAMESPACE, Uuid::new_v5(&Uuid::nil(), b"lance-context/datagen-event"));
    }

    #[test]
    fn event_ids_are_pinned() {
        assert_eq!(event_id("5", "0:e:1", 0), "5648a4e8-2c91-5a38-b479-367afc26443e");
    }

    #[test]
    fn no_two_places_share_an_id() {
        let ids = [
            event_id("5", "0:e:1", 0),
            event_id("5", "0:e:1", 1),
            event_id("5", "0:e:2", 0),
            event_id("50", ":e:1", 0),
            event_id("", "50:e:1", 0),
        ];
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }

    #[test]
    fn a_checkpoint_id_reads_back_whatever_the_epoch() {
        for epoch in ["e", "a:b", "1:2", ":", "", "naïve"] {
            let id = CheckpointId { attempt: 3, writer_epoch: epoch, first_seq: 17 };
            assert_eq!(CheckpointId::parse(&id.text()), Some(id), "{epoch}");
        }
    }

    #[test]
    fn other_texts_are_no_checkpoint_ids() {
        for text in ["", "0", "0:e", "x:e:1", "0:e:x", "+0:e:1", "00:e:1", "0:e:01", "99999999999:e:1"] {
            assert_eq!(CheckpointId::parse(text), None, "{text}");
        }
    }
}
