//! JSON as people like to read it: what fits into a line stands in one.

/// A value to be written.
pub(super) enum Out {
    Number(i64),
    Bool(bool),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

/// How long a line may be.
const WIDTH: usize = 100;

impl From<&str> for Out {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Out {
    /// The text, with a line's end at its end.
    pub(super) fn render(&self) -> String {
        let mut to = String::new();
        // The top is always one field a line.
        match self {
            Self::Object(fields) => tall(fields, 0, &mut to),
            other => other.write(0, 0, &mut to),
        }
        to.push('\n');
        to
    }

    /// Writes at an indentation; `more` is what follows in the same line.
    fn write(&self, indent: usize, more: usize, to: &mut String) {
        let begins = to.len();
        let column = begins - to.rfind('\n').map_or(0, |end| end + 1);
        if self.flat(begins + WIDTH.saturating_sub(column.saturating_add(more)), to) {
            return;
        }
        to.truncate(begins);
        match self {
            Self::List(list) => {
                to.push('[');
                for (nth, one) in list.iter().enumerate() {
                    to.push_str(if nth == 0 { "" } else { "," });
                    new_line(indent + 2, to);
                    one.write(indent + 2, 1, to);
                }
                new_line(indent, to);
                to.push(']');
            }
            Self::Object(fields) => match fields.split_last() {
                // A body hangs below its head.
                Some(((key, Self::List(list)), head))
                    if matches!(list.first(), Some(Self::Object(_))) =>
                {
                    to.push('{');
                    let limit = begins + WIDTH.saturating_sub(column + key.len() + 6);
                    let fits = head.iter().all(|(key, value)| {
                        write_key(key, to);
                        let flat = value.flat(limit, to);
                        to.push_str(", ");
                        flat
                    });
                    if fits {
                        write_key(key, to);
                        Self::write(&fields[head.len()].1, indent, usize::MAX, to);
                        to.push('}');
                    } else {
                        to.truncate(begins);
                        filled(fields, indent, to);
                    }
                }
                _ => filled(fields, indent, to),
            },
            _ => {
                self.flat(usize::MAX, to);
            }
        }
    }

    /// Writes in one line, and says whether the text then ends before `limit`; gives up where it does not.
    fn flat(&self, limit: usize, to: &mut String) -> bool {
        match self {
            Self::Number(number) => to.push_str(&number.to_string()),
            Self::Bool(value) => to.push_str(if *value { "true" } else { "false" }),
            Self::Text(text) => write_text(text, to),
            Self::List(list) => {
                to.push('[');
                for (nth, one) in list.iter().enumerate() {
                    to.push_str(if nth == 0 { "" } else { ", " });
                    if !one.flat(limit, to) {
                        return false;
                    }
                }
                to.push(']');
            }
            Self::Object(fields) => {
                to.push('{');
                for (nth, (key, value)) in fields.iter().enumerate() {
                    to.push_str(if nth == 0 { "" } else { ", " });
                    write_key(key, to);
                    if !value.flat(limit, to) {
                        return false;
                    }
                }
                to.push('}');
            }
        }
        to.len() <= limit
    }
}

/// An object with a field in each line.
fn tall(fields: &[(&'static str, Out)], indent: usize, to: &mut String) {
    to.push('{');
    for (nth, (key, value)) in fields.iter().enumerate() {
        to.push_str(if nth == 0 { "" } else { "," });
        new_line(indent + 2, to);
        write_key(key, to);
        value.write(indent + 2, 1, to);
    }
    new_line(indent, to);
    to.push('}');
}

/// An object with as many fields in a line as fit.
fn filled(fields: &[(&'static str, Out)], indent: usize, to: &mut String) {
    let mut begins = to.rfind('\n').map_or(0, |end| end + 1);
    to.push('{');
    for (nth, (key, value)) in fields.iter().enumerate() {
        let before = to.len();
        to.push_str(if nth == 0 { "" } else { ", " });
        write_key(key, to);
        if value.flat(begins + WIDTH - 1, to) {
            continue;
        }
        to.truncate(before);
        to.push_str(if nth == 0 { "" } else { "," });
        new_line(indent + 2, to);
        begins = to.len() - indent - 2;
        write_key(key, to);
        value.write(indent + 2, 1, to);
        begins = to[begins..].rfind('\n').map_or(begins, |end| begins + end + 1);
    }
    to.push('}');
}

fn new_line(indent: usize, to: &mut String) {
    to.push('\n');
    to.extend(std::iter::repeat_n(' ', indent));
}

fn write_key(key: &str, to: &mut String) {
    write_text(key, to);
    to.push_str(": ");
}

fn write_text(text: &str, to: &mut String) {
    let value = serde_json::Value::from(text);
    to.push_str(&value.to_string());
}
