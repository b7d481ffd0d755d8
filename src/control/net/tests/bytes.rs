//! Bytes that no rank sends.

use super::super::frame;
use super::super::fuzz::{Dice, throw};
use super::super::message::Message;

#[test]
fn bytes_that_are_no_frames_do_no_harm() {
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

/// Even who knows the secret can only end its own communicator: what it makes up harms nobody else.
/// `cargo run -p xtask -- fuzz seed seconds frames` throws more.
#[test]
fn nonsense_harms_nobody_else() {
    let mut proven = 0;
    for seed in 0..6 {
        let thrown = throw(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(thrown.messages > 0 && thrown.messages < thrown.inputs, "{thrown:?}");
        proven += thrown.proven;
    }
    assert!(proven > 50, "{proven} of them were let in");
}
