//! Encrypts and authenticates a connection after the proof, if the ranks have a secret. A record
//! that was changed, repeated, dropped or reordered ends the connection.
//!
//! A record is a length and a Noise message. The first two records agree on keys for this
//! connection alone.

use snow::{Builder, HandshakeState, TransportState};

use super::proof::Secret;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// The longest record and the longest plaintext: a Noise message has up to 64 KiB, 16 bytes of
/// which are a tag.
const RECORD: usize = 65_535;
const PLAIN: usize = RECORD - TAG;
const TAG: usize = 16;

/// The longest handshake message, without a payload: a key and a tag.
const HANDSHAKE: usize = 32 + TAG;

const HEAD: usize = 2;

/// The state of a connection's encryption.
pub(super) enum Seal {
    Handshaking(Box<HandshakeState>),
    Sealed(Box<TransportState>),
    /// A record was refused; nothing that follows is read.
    Broken,
}

/// A record that is not the peer's next one.
#[derive(Debug)]
pub(super) struct Forged;

impl From<snow::Error> for Forged {
    fn from(_: snow::Error) -> Self {
        Self
    }
}

impl Seal {
    /// Starts the handshake; the connecting side sends the first message. The keys depend on
    /// `transcript`.
    pub(super) fn start_handshake(
        secret: &Secret,
        transcript: &[&[u8]],
        connects: bool,
        output: &mut Vec<u8>,
    ) -> Result<Self, Forged> {
        let transcript = transcript.concat();
        let builder =
            Builder::new(PATTERN.parse()?).psk(0, secret.bytes())?.prologue(&transcript)?;
        let mut noise = match connects {
            true => builder.build_initiator()?,
            false => builder.build_responder()?,
        };
        if connects {
            record(output, HANDSHAKE, |to| noise.write_message(&[], to))?;
        }
        Ok(Self::Handshaking(Box::new(noise)))
    }

    /// Encrypts `plain` and appends the records to `output`. False until the handshake is done.
    pub(super) fn seal(&mut self, plain: &[u8], output: &mut Vec<u8>) -> bool {
        match self {
            Self::Handshaking(_) => return false,
            Self::Broken => {}
            Self::Sealed(noise) => {
                for part in plain.chunks(PLAIN) {
                    let write = |to: &mut [u8]| noise.write_message(part, to);
                    if record(output, part.len() + TAG, write).is_err() {
                        *self = Self::Broken;
                        break;
                    }
                }
            }
        }
        true
    }

    /// Decrypts the complete records of `input` and appends their plaintext to `plain`.
    pub(super) fn open(
        &mut self,
        input: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<(), Forged> {
        let mut used = 0;
        while let Some((head, rest)) = input[used..].split_first_chunk::<HEAD>() {
            let length = usize::from(u16::from_le_bytes(*head));
            let Some(content) = rest.get(..length) else { break };
            if let Err(forged) = self.open_record(content, plain, output) {
                *self = Self::Broken;
                return Err(forged);
            }
            used += HEAD + length;
        }
        input.drain(..used);
        Ok(())
    }

    fn open_record(
        &mut self,
        content: &[u8],
        plain: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<(), Forged> {
        match std::mem::replace(self, Self::Broken) {
            Self::Broken => Err(Forged),
            Self::Handshaking(mut noise) => {
                if content.len() > HANDSHAKE {
                    return Err(Forged);
                }
                noise.read_message(content, &mut [0; HANDSHAKE])?;
                if !noise.is_handshake_finished() {
                    record(output, HANDSHAKE, |to| noise.write_message(&[], to))?;
                }
                *self = Self::Sealed(Box::new(noise.into_transport_mode()?));
                Ok(())
            }
            Self::Sealed(mut noise) => {
                let start = plain.len();
                plain.resize(start + content.len(), 0);
                let length = noise.read_message(content, &mut plain[start..]);
                // A refused record leaves unauthenticated bytes there.
                plain.truncate(start + length.as_ref().copied().unwrap_or(0));
                length?;
                *self = Self::Sealed(noise);
                Ok(())
            }
        }
    }
}

/// Appends a record of at most `most` bytes, which `fill` writes.
fn record(
    output: &mut Vec<u8>,
    most: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<usize, snow::Error>,
) -> Result<(), Forged> {
    let start = output.len();
    output.resize(start + HEAD + most, 0);
    let count = fill(&mut output[start + HEAD..])?;
    output.truncate(start + HEAD + count);
    let length = u16::try_from(count).map_err(|_| Forged)?;
    output[start..start + HEAD].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PLAIN, Seal};
    use crate::control::net::proof::Secret;

    /// Two sides after the handshake.
    fn sides(secrets: [&str; 2]) -> Option<[Seal; 2]> {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let open = |which: usize, output: &mut Vec<u8>| {
            Seal::start_handshake(&Secret::of_text(secrets[which]), &[b"said"], which == 0, output)
                .ok()
        };
        let (mut a, mut b) = (open(0, &mut there)?, open(1, &mut back)?);
        let mut plain = Vec::new();
        // Messages wait for the handshake.
        assert!(!b.seal(b"early", &mut back) && back.is_empty());
        b.open(&mut there, &mut plain, &mut back).ok()?;
        assert!(b.seal(b"early", &mut back));
        a.open(&mut back, &mut plain, &mut there).ok()?;
        assert_eq!(plain, b"early");
        Some([a, b])
    }

    fn sealed(seal: &mut Seal, plain: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        seal.seal(plain, &mut output);
        output
    }

    fn opened(seal: &mut Seal, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        let mut plain = Vec::new();
        let outcome = seal.open(&mut bytes, &mut plain, &mut Vec::new());
        let is_record = |plain: &Vec<u8>| matches!(&plain[..], b"one" | b"two");
        assert!(outcome.is_ok() || plain.is_empty() || is_record(&plain), "{plain:?}");
        outcome.ok().map(|()| plain)
    }

    #[test]
    fn messages_arrive_unchanged_and_are_confidential() {
        let [mut a, mut b] = sides(["same", "same"]).expect("one secret");
        let long = vec![7; PLAIN * 2 + 1];
        for plain in [b"hello".to_vec(), Vec::new(), long] {
            let bytes = sealed(&mut a, &plain);
            assert!(plain.len() < 5 || !bytes.windows(5).any(|five| five == &plain[..5]));
            assert_eq!(opened(&mut b, bytes), Some(plain));
        }
    }

    #[test]
    fn another_secret_gives_no_keys() {
        assert!(sides(["one", "another"]).is_none());
    }

    #[test]
    fn changed_repeated_dropped_or_swapped_records_are_refused() {
        for bit in 0..8 * 23 {
            let [mut a, mut b] = sides(["same", "same"]).expect("one secret");
            let mut bytes = sealed(&mut a, b"hello");
            bytes[bit / 8] ^= 1 << (bit % 8);
            // A record whose length grew is never complete.
            assert!(opened(&mut b, bytes).is_none_or(|plain| plain.is_empty()), "bit {bit}");
        }
        let attacks: [&dyn Fn(Vec<u8>, Vec<u8>) -> Vec<u8>; 3] =
            [&|one, _| [one.clone(), one].concat(), &|_, two| two, &|one, two| [two, one].concat()];
        for attack in attacks {
            let [mut a, mut b] = sides(["same", "same"]).expect("one secret");
            let (one, two) = (sealed(&mut a, b"one"), sealed(&mut a, b"two"));
            assert_eq!(opened(&mut b, attack(one, two)), None);
            // Nothing after a refused record is read.
            assert_eq!(opened(&mut b, sealed(&mut a, b"three")), None);
        }
    }
}
