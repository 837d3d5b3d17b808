//! The known word that a misspelt one was meant to be.

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
    let from: Vec<char> = from.to_lowercase().chars().collect();
    let to: Vec<char> = to.to_lowercase().chars().collect();
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut current = vec![i; to.len() + 1];
        for j in 1..=to.len() {
            let replace = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            current[j] = replace.min(last[j] + 1).min(current[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                current[j] = current[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}
