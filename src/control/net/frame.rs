//! Frames: a length, then that many bytes. What is longer than the reader allows ends the
//! connection before anything is allocated for it; memory grows with what has come, not with what
//! is announced.

use std::ops::Range;

/// How long a frame of a neighbour may be: the longest value of the host that a rank can send, and
/// the table of all members.
pub(super) const MOST: usize = 1 << 30;

/// How long a frame may be of who wants to meet the others.
pub(super) const MOST_BOOTSTRAP: usize = 1 << 13;

const HEAD: usize = 4;

/// A frame that announces more than its reader takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLong(pub(super) usize);

/// Where the first frame's content is in `input`, if it is whole.
pub(super) fn next(input: &[u8], most: usize) -> Result<Option<Range<usize>>, TooLong> {
    let Some((head, rest)) = input.split_first_chunk::<HEAD>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > most {
        return Err(TooLong(length));
    }
    Ok((rest.len() >= length).then_some(HEAD..HEAD + length))
}

/// Appends a frame that `fill` writes the content of.
pub(super) fn push(output: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let head = output.len();
    output.extend([0; HEAD]);
    fill(output);
    let length = u32::try_from(output.len() - head - HEAD).unwrap_or(u32::MAX);
    output[head..head + HEAD].copy_from_slice(&length.to_le_bytes());
}
