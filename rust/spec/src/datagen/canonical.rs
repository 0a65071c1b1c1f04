//! Bytes that are equal exactly when what was written into them is.
//!
//! Every part is of fixed width or length-prefixed, so no two sequences of parts share their bytes and
//! comparing two encodings compares them part by part.

/// A growing encoding.
#[derive(Debug, Default)]
pub(super) struct Canonical(Vec<u8>);

impl Canonical {
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn number(&mut self, number: i64) {
        self.raw(&number.to_be_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.raw(&(text.len() as u64).to_be_bytes());
        self.raw(text.as_bytes());
    }

    pub(super) fn optional(&mut self, text: Option<&str>) {
        self.raw(&[u8::from(text.is_some())]);
        if let Some(text) = text {
            self.text(text);
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
