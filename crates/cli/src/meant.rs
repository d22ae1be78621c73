//! Suggestions for misspelt names.

use datafusion::common::utils::datafusion_strsim::normalized_levenshtein;

/// Minimum similarity of a suggestion: a third of its letters may differ.
const ALIKE_MIN: f64 = 0.66;

/// The most similar name, if one is similar enough.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let likeness = |name: &str| normalized_levenshtein(&typed, &name.to_lowercase());
    let alike = names.map(|name| (likeness(name), name)).filter(|(likeness, _)| *likeness >= ALIKE_MIN);
    alike.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_like_what_was_typed() {
        let names = ["lineitem", "orders", "Nation"];
        let meant = |typed: &str| nearest(typed, names.into_iter());
        assert_eq!(meant("linitem"), Some("lineitem"));
        assert_eq!(meant("ORDER"), Some("orders"));
        assert_eq!(meant("nations"), Some("Nation"));
        assert_eq!(meant("customer"), None);
    }
}
