//! Lines of a text, found by byte.

use typed_nccl_plan::ir::Location;

pub(crate) struct Lines {
    begins: Vec<usize>,
}

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { begins: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    pub(crate) fn at(&self, byte: usize) -> Location {
        let line = self.begins.partition_point(|begin| *begin <= byte);
        let begin = self.begins[line.saturating_sub(1)];
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Location::new(number(line), number(byte.saturating_sub(begin) + 1))
    }
}
