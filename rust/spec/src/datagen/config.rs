//! The fingerprint of an item's configuration.

use sha2::{Digest, Sha256};

use super::ids::ItemId;
use super::json;
use crate::error::{Error, Result};

/// The sha256, in lower-case hex, of a configuration's canonical JSON: members sorted, no blanks, numbers
/// as they are written.
///
/// # Errors
/// `InvalidArgument` for text that is no JSON, gives a key twice or nests deeper than 128 levels.
pub fn config_hash(config: &str) -> Result<String> {
    let canonical =
        json::canonical(config).map_err(|message| Error::InvalidArgument { argument: "config".to_owned(), message })?;
    Ok(Sha256::digest(canonical.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether an item that was started with the configuration of hash `stored` may go on with `given`.
/// An item without either may.
///
/// # Errors
/// `ConfigChanged`, which a caller may turn into a warning.
pub fn check_config(item: &ItemId, stored: Option<&str>, given: Option<&str>) -> Result<()> {
    match (stored, given) {
        (Some(stored), Some(given)) if stored != given => {
            Err(Error::ConfigChanged { item: item.to_string(), stored: stored.to_owned(), given: given.to_owned() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn the_hash_is_that_of_the_canonical_text() {
        let hash = config_hash(r#"{ "b": 1, "a": "x" }"#).unwrap();
        assert_eq!(hash, config_hash(r#"{"a":"x","b":1}"#).unwrap());
        // printf '{"a":"x","b":1}' | sha256sum
        assert_eq!(hash, "cdab067e9f3beb32d1252cfd63e492592fecbf591b0d08cadb24bb17f3864246");
    }

    #[test]
    fn numbers_count_with_every_digit() {
        let hash = |text| config_hash(text).unwrap();
        assert_ne!(hash("9007199254740992"), hash("9007199254740993"));
        assert_ne!(hash("0.1"), hash("0.10000000000000000001"));
    }

    #[test]
    fn only_two_different_hashes_are_a_change() {
        let item = ItemId::parse("5").unwrap();
        for (stored, given) in [(None, None), (Some("a"), None), (None, Some("a")), (Some("a"), Some("a"))] {
            check_config(&item, stored, given).unwrap();
        }
        let error = check_config(&item, Some("a"), Some("b")).unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::State, "config-changed"));
    }
}
