//! Finds the name that was probably meant.

/// The nearest of the names, if it is near enough to be a typo.
pub(crate) fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // One letter is near to every other.
    let letters = name.chars().count();
    let most = (letters / 3).max(1).min(letters.saturating_sub(1));
    let lower = name.to_lowercase();
    among
        .map(|other| (distance(&lower, &other.to_lowercase()), distance(name, other), other))
        .filter(|(distance, ..)| *distance <= most)
        .min_by_key(|(distance, cased, _)| (*distance, *cased))
        .map(|(.., other)| other)
}

/// The number of letters to change, insert, delete or swap with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, &a) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, &b) in right.iter().enumerate() {
            let mut least = (row[j] + usize::from(a != b)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a == right[j - 1] && left[i - 1] == b {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_near() {
        let names = ["send", "sizes", "recv", "net"];
        for (slip, meant) in [("snd", "send"), ("size", "sizes"), ("ent", "net"), ("Recv", "recv")]
        {
            assert_eq!(nearest(slip, names.into_iter()), Some(meant));
        }
        assert_eq!(nearest("compute", names.into_iter()), None);
        assert_eq!(nearest("x", names.into_iter()), None);
    }
}
