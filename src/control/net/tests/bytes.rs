//! Malformed bytes.

use super::super::frame;
use super::super::fuzz::{Dice, throw};
use super::super::message::Message;

#[test]
fn bytes_that_are_not_frames_are_harmless() {
    for seed in 0..256 {
        let dice = &mut Dice(seed);
        let (bytes, most) = (dice.bytes(299), dice.roll(1000));
        let mut rest = &bytes[..];
        while let Ok(Some(content)) = frame::next(rest, most) {
            assert!(content.len() <= most && content.end <= rest.len(), "seed {seed}");
            let _ = postcard::from_bytes::<Message<'_>>(&rest[content.clone()]);
            rest = &rest[content.end..];
        }
    }
}

/// A peer that knows the secret can harm its own communicator only. `cargo run -p xtask -- fuzz
/// seed seconds frames` runs more rounds.
#[test]
fn malformed_bytes_harm_no_other_communicator() {
    let mut proven = 0;
    for seed in 0..6 {
        let thrown = throw(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(thrown.messages > 0 && thrown.messages < thrown.inputs, "{thrown:?}");
        proven += thrown.proven;
    }
    assert!(proven > 50, "{proven} of them were let in");
}
