//! A value of the file with the way to it, for messages.

use super::JsonError;
use super::tree::{Kind, Source, Value};
use crate::ir::Location;

/// A value, and how one gets to it from the top.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    file: &'a File<'a>,
    value: &'a Value<'a>,
    way: Option<(&'a Self, Segment<'a>)>,
}

/// What all values of a file have in common.
pub(super) struct File<'a> {
    pub(super) source: &'a Source<'a>,
    /// Whether places are those of this text, as the file names no others.
    pub(super) located: bool,
}

#[derive(Clone, Copy)]
enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// The fields of an object.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) node: &'a Node<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn top(file: &'a File<'a>, value: &'a Value<'a>) -> Self {
        Self { file, value, way: None }
    }

    pub(super) fn kind(&self) -> &'a Kind<'a> {
        &self.value.kind
    }

    /// Its place in the text, line and column.
    pub(super) fn place(&self) -> (usize, usize) {
        self.file.source.place(self.value.begins)
    }

    /// `steps[3].peer`
    pub(super) fn path(&self) -> String {
        let mut ways = Vec::new();
        let mut node = self;
        while let Some((up, segment)) = &node.way {
            ways.push(*segment);
            node = up;
        }
        let mut path = String::new();
        for segment in ways.into_iter().rev() {
            match segment {
                Segment::Key(key) if path.is_empty() => path.push_str(key),
                Segment::Key(key) => path.extend([".", key]),
                Segment::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        if path.is_empty() { "the file".to_owned() } else { path }
    }

    /// That something else was expected here.
    pub(super) fn expected(&self, expected: impl Into<String>) -> JsonError {
        let found = match self.kind() {
            Kind::Null => "null".to_owned(),
            Kind::Bool(value) => value.to_string(),
            Kind::Number(number) => short(number).to_owned(),
            Kind::Text(text) => format!("{:?}", short(text)),
            Kind::List(list) => format!("a list of {}", list.len()),
            Kind::Object(_) => "an object".to_owned(),
        };
        self.shape(expected, found)
    }

    pub(super) fn shape(&self, expected: impl Into<String>, found: impl Into<String>) -> JsonError {
        let (line, column) = self.place();
        let (path, expected, found) = (self.path(), expected.into(), found.into());
        JsonError::Shape { path, line, column, expected, found }
    }

    pub(super) fn text(&self, expected: &str) -> Result<&'a str, JsonError> {
        match self.kind() {
            Kind::Text(text) => Ok(text),
            _ => Err(self.expected(expected)),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, JsonError> {
        match self.kind() {
            Kind::Bool(value) => Ok(*value),
            _ => Err(self.expected("true or false")),
        }
    }

    /// A whole number that `T` holds.
    pub(super) fn whole<T: std::str::FromStr>(&self, expected: &str) -> Result<T, JsonError> {
        match self.kind() {
            Kind::Number(number) => number.parse().map_err(|_| self.expected(expected)),
            _ => Err(self.expected(expected)),
        }
    }

    pub(super) fn list(
        &'a self,
        of: &str,
    ) -> Result<impl Iterator<Item = Self> + Clone, JsonError> {
        let Kind::List(list) = self.kind() else {
            return Err(self.expected(format!("a list of {of}")));
        };
        let child =
            |(index, value)| Self { value, way: Some((self, Segment::Index(index))), ..*self };
        Ok(list.iter().enumerate().map(child))
    }

    /// An object that has some of these keys, each once.
    pub(super) fn object(&'a self, what: &str, keys: &[&str]) -> Result<Fields<'a>, JsonError> {
        let Kind::Object(entries) = self.kind() else {
            return Err(self.expected(what));
        };
        let mut seen = 0_u32;
        for (key, value) in entries {
            let Some(nth) = keys.iter().position(|known| known == key) else {
                let node = Self { value, ..*self };
                let expected = format!("{what} with the keys {}", keys.join(", "));
                return Err(node.shape(expected, format!("the key {:?}", short(key))));
            };
            if seen & 1 << nth != 0 {
                let node = Self { value, ..*self };
                return Err(node.shape(format!("the key {:?} once", short(key)), "it again"));
            }
            seen |= 1 << nth;
        }
        Ok(Fields { node: self })
    }

    /// Where the plan says that this stands: what `at` says, else its place in this text.
    fn location(&'a self) -> Result<Location, JsonError> {
        if let Some(at) = (Fields { node: self }).maybe("at") {
            let mut numbers = at.list("line, column and file")?;
            let whole =
                "a list of 2 or 3 whole numbers: line, column and the file's place in `files`";
            let mut number = || numbers.next().map(|number| number.whole::<u32>(whole)).transpose();
            let parts = [number()?, number()?, number()?, number()?];
            return match parts {
                [Some(line), Some(column), file, None] => {
                    let file = u16::try_from(file.unwrap_or(0)).map_err(|_| at.expected(whole))?;
                    Ok(Location { file, line, column })
                }
                _ => Err(at.expected(whole)),
            };
        }
        if !self.file.located {
            return Ok(Location::default());
        }
        let (line, column) = self.place();
        // Texts are far shorter than 2^32.
        Ok(Location::new(line as u32, column as u32))
    }

    /// Something that may be text alone, or an object with that text under a key and with a place.
    pub(super) fn with_place(
        &'a self,
        what: &str,
        key: &'a str,
    ) -> Result<(Self, Location), JsonError> {
        match self.kind() {
            Kind::Text(_) => Ok((*self, self.location()?)),
            _ => {
                let fields = self.object(what, &[key, "at"])?;
                Ok((fields.need(key)?, fields.at()?))
            }
        }
    }
}

impl<'a> Fields<'a> {
    pub(super) fn at(&self) -> Result<Location, JsonError> {
        self.node.location()
    }

    /// A field that may be missing, or null.
    pub(super) fn maybe(&self, key: &'a str) -> Option<Node<'a>> {
        let Kind::Object(entries) = self.node.kind() else { return None };
        let (_, value) = entries.iter().find(|(name, _)| name == key)?;
        let way = Some((self.node, Segment::Key(key)));
        (!matches!(value.kind, Kind::Null)).then_some(Node { value, way, ..*self.node })
    }

    pub(super) fn need(&self, key: &'a str) -> Result<Node<'a>, JsonError> {
        self.maybe(key).ok_or_else(|| self.node.shape(format!("the key {key:?}"), "none"))
    }

    /// Whether something is so; not if nothing is said.
    pub(super) fn flag(&self, key: &'a str) -> Result<bool, JsonError> {
        self.maybe(key).map_or(Ok(false), |node| node.boolean())
    }
}

/// The beginning of what a file says, for messages.
pub(super) fn short(text: &str) -> &str {
    text.char_indices().nth(60).map_or(text, |(end, _)| &text[..end])
}
