//! The width of text in a monospace font, in columns.

/// The width of a text in columns.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// The text, truncated with an ellipsis if it does not fit.
pub(crate) fn fit(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut left = most.saturating_sub(1);
    for char in text.chars() {
        match left.checked_sub(width(char)) {
            Some(rest) => left = rest,
            None => break,
        }
        cut.push(char);
    }
    while cut.ends_with(' ') {
        cut.pop();
    }
    if most > 0 {
        cut.push('…');
    }
    cut
}

/// Wraps the text to that many columns, between words if possible.
pub(crate) fn wrap(text: &str, most: usize) -> Vec<String> {
    let (most, mut lines, mut line) = (most.max(4), Vec::new(), String::new());
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        loop {
            let used = columns(&line);
            let blank = usize::from(used > 0);
            if used + blank + columns(&word) <= most {
                if blank == 1 {
                    line.push(' ');
                }
                line += &word;
                break;
            }
            if used > 0 {
                lines.push(std::mem::take(&mut line));
                continue;
            }
            // A word longer than a line.
            let mut head = String::new();
            for char in word.chars() {
                if columns(&head) + width(char) > most {
                    break;
                }
                head.push(char);
            }
            word = word[head.len()..].to_owned();
            lines.push(head);
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

fn width(char: char) -> usize {
    match char as u32 {
        // Combining marks.
        0x300..=0x36f | 0x1ab0..=0x1aff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        // Double-width scripts, and emoji.
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe4f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f000..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
