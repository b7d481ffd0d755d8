//! Frames: a length and that many bytes. A frame over the reader's limit ends the connection before
//! anything is allocated; memory grows with the bytes received, not with the announced length.

use std::ops::Range;

/// The longest frame of a neighbour. It must hold the longest host value and the member table.
pub(super) const MOST: usize = 1 << 30;

/// The longest frame of a rank at the rendezvous.
pub(super) const MOST_BOOTSTRAP: usize = 1 << 13;

const HEAD: usize = 4;

/// A frame longer than its reader's limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLong(pub(super) usize);

/// The range of the first frame's content, if the frame is complete.
pub(super) fn next(input: &[u8], most: usize) -> Result<Option<Range<usize>>, TooLong> {
    let Some((head, rest)) = input.split_first_chunk::<HEAD>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > most {
        return Err(TooLong(length));
    }
    Ok((rest.len() >= length).then_some(HEAD..HEAD + length))
}

/// Appends a frame whose content `fill` writes.
pub(super) fn push(output: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let head = output.len();
    output.extend([0; HEAD]);
    fill(output);
    let length = u32::try_from(output.len() - head - HEAD).unwrap_or(u32::MAX);
    output[head..head + HEAD].copy_from_slice(&length.to_le_bytes());
}
