//! The known word that a misspelt one was meant to be.
//!
//! Owns how near is near enough: a third of the characters. Does not own the words that are known (whoever asks has them), nor the
//! sentence.

/// The nearest of `known` to `word`, if one is near enough to be meant: a third of its characters may differ.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Longer words are no misspelling of any key, and the distance costs their length squared.
    if word.len() > 64 {
        return None;
    }
    let distances = known.iter().map(|candidate| (distance(word, candidate), *candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    let allowed = (candidate.chars().count().max(word.chars().count()) / 3).max(1);
    (distance <= allowed).then_some(candidate)
}

/// Characters to insert, delete, replace or swap with their neighbour, to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    strsim::osa_distance(&from.to_lowercase(), &to.to_lowercase())
}
