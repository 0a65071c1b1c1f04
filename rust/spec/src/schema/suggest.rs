//! Which of some known names a misspelled one was meant to be.

/// Longer names are not compared: the effort grows with the square of the length.
const MAX_CHARS: usize = 255;

/// The candidate nearest to `name`, if it is near enough to be a slip: about one edit in three
/// characters, case and swapped neighbours counting little.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    if length > MAX_CHARS {
        return None;
    }
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            let longest = length.max(lower.chars().count());
            let allowed = (longest / 3).max(1);
            if longest - length.min(lower.chars().count()) > allowed {
                return None;
            }
            let distance = strsim::osa_distance(&wanted, &lower);
            (distance <= allowed && distance < longest).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn takes_the_nearest_slip() {
        let names = ["score", "scores", "user"];
        assert_eq!(closest("scroe", names), Some("score"));
        assert_eq!(closest("SCORES", names), Some("scores"));
        assert_eq!(closest("usr", names), Some("user"));
    }

    #[test]
    fn stays_silent_when_nothing_is_near() {
        assert_eq!(closest("video", ["score", "user"]), None);
        assert_eq!(closest("a", ["b"]), None);
        assert_eq!(closest("", ["a"]), None);
        assert_eq!(closest(&"x".repeat(1_000_000), ["x"]), None);
    }
}
