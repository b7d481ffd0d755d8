//! Mutual authentication: both sides prove that they know the communicator's secret.
//!
//! Three messages of fixed length open every connection: a challenge of the listening side, a claim
//! with a proof of the connecting side, and a verdict with a proof of the listening side. Their
//! layout never changes. Until a claim is proven, nothing else is read and nothing is allocated.

use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac256, Digest};

use super::ident::{CommId, sized};

const MAGIC: [u8; 4] = *b"tnCP";

/// The version of the frame layout, raised with every change.
const PROTOCOL: u16 = 6;

pub(super) const CHALLENGE: usize = 4 + Version::BYTES + 32;
pub(super) const CLAIM: usize = 4 + Version::BYTES + 16 + 1 + 4 + 4 + 32 + 32;
pub(super) const VERDICT: usize = 1 + 32;

/// A key that authenticates the ranks of a communicator.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret {
    key: [u8; 32],
    /// Whether it is confidential. A public key authenticates nothing, and nothing is encrypted
    /// with it.
    is_secret: bool,
}

impl Secret {
    pub(super) fn of_text(text: &str) -> Self {
        Self { key: Blake2s256::digest(text.as_bytes()).into(), is_secret: true }
    }

    pub(super) fn of_bytes(bytes: [u8; 32]) -> Self {
        Self { key: bytes, is_secret: true }
    }

    /// The same key, marked as public.
    pub(super) fn public(self) -> Self {
        Self { is_secret: false, ..self }
    }

    pub(super) fn is_secret(&self) -> bool {
        self.is_secret
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.key
    }

    fn keyed(&self, side: Side, code: u8) -> Blake2sMac256 {
        let mut mac = <Blake2sMac256 as KeyInit>::new(&self.key.into());
        mac.update(&[side as u8, code]);
        mac
    }

    fn mac(
        &self,
        side: Side,
        challenge: &[u8; CHALLENGE],
        claim: &[u8],
        code: u8,
    ) -> Blake2sMac256 {
        let mut mac = self.keyed(side, code);
        mac.update(challenge);
        mac.update(claim);
        mac
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[derive(Clone, Copy)]
enum Side {
    Connects = 1,
    Listens = 2,
}

/// A program's version: the protocol and the crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Version {
    protocol: u16,
    name: [u8; 16],
}

impl Version {
    const BYTES: usize = 2 + 16;

    pub(super) fn own() -> Self {
        Self::named(env!("CARGO_PKG_VERSION"))
    }

    pub(super) fn named(text: &str) -> Self {
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Self { protocol: PROTOCOL, name }
    }

    fn read(bytes: &[u8]) -> Self {
        let (protocol, name) = (sized(&bytes[..2]), sized(&bytes[2..Self::BYTES]));
        Self { protocol: u16::from_le_bytes(protocol), name }
    }

    fn write(self, to: &mut Vec<u8>) {
        to.extend(self.protocol.to_le_bytes());
        to.extend(self.name);
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name: String =
            self.name.iter().take_while(|byte| **byte != 0).copied().map(shown).collect();
        write!(f, "typed-nccl {name}")
    }
}

fn shown(byte: u8) -> char {
    if byte.is_ascii_graphic() { char::from(byte) } else { '?' }
}

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// To join a rendezvous.
    Meet,
    /// To become a neighbour in a communicator's tree.
    Link {
        /// Whether the connecting side has the member table.
        has_table: bool,
    },
}

/// The connecting side's claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    pub(super) version: Version,
    pub(super) id: CommId,
    pub(super) purpose: Purpose,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// The listening side's answer to a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Welcome = 1,
    /// The proof is wrong. This verdict carries no proof: the peer could not check one.
    Unproven = 2,
    OtherVersion = 3,
    /// No such communicator here, so no secret for a proof either.
    Unknown = 4,
    /// The communicator has ended here.
    Ended = 5,
    /// The others took this rank for dead.
    Dead = 6,
}

impl Verdict {
    fn of(code: u8) -> Option<Self> {
        [Self::Welcome, Self::Unproven, Self::OtherVersion, Self::Unknown, Self::Ended, Self::Dead]
            .into_iter()
            .find(|verdict| *verdict as u8 == code)
    }
}

/// The part of a nonce that a [`JobName`] signs.
const SIGN: usize = 16;

/// A launcher's name for a job, as a key. It is no secret, but lets processes recognize their own
/// job before the proof. To others a signature looks random. It is bound to one port, so another
/// listener cannot replay it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JobName(Secret);

impl JobName {
    pub(super) fn new(name: &str) -> Self {
        Self(Secret::of_text(&format!("the name of a job\n{name}")))
    }

    fn sign(&self, side: Side, challenge: &[u8], message: &[u8]) -> [u8; SIGN] {
        let mut mac = self.0.keyed(side, 0);
        mac.update(challenge);
        mac.update(message);
        sized(&mac.finalize().into_bytes()[..SIGN])
    }

    /// Whether the listening side knows this job's name, and listens at `port`.
    pub(super) fn is_in_challenge(&self, challenge: &[u8; CHALLENGE], port: u16) -> bool {
        let (signed, sign) = challenge.split_at(CHALLENGE - SIGN);
        self.sign(Side::Listens, signed, &port.to_le_bytes()) == sign
    }

    /// Whether the connecting side knows this job's name.
    pub(super) fn is_in_claim(&self, proof: &Proof) -> bool {
        let (signed, rest) = proof.claim.split_at(CLAIM - 32 - SIGN);
        self.sign(Side::Connects, &proof.challenge, signed) == rest[..SIGN]
    }
}

/// A fresh challenge, signed with the job's name if there is one.
pub(super) fn challenge(nonce: [u8; 32], job: Option<(&JobName, u16)>) -> [u8; CHALLENGE] {
    let mut bytes = Vec::with_capacity(CHALLENGE);
    bytes.extend(MAGIC);
    Version::own().write(&mut bytes);
    bytes.extend(nonce);
    if let Some((job, port)) = job {
        bytes.truncate(CHALLENGE - SIGN);
        bytes.extend(job.sign(Side::Listens, &bytes, &port.to_le_bytes()));
    }
    sized(&bytes)
}

/// The version of the side that sent a challenge; `None` if it is not typed-nccl.
pub(super) fn challenger(challenge: &[u8; CHALLENGE]) -> Option<Version> {
    (challenge[..4] == MAGIC).then(|| Version::read(&challenge[4..]))
}

impl Claim {
    /// The encoded claim and the challenge that it answers, signed with the job's name if there is
    /// one.
    pub(super) fn prove(
        &self,
        (secret, job): (&Secret, Option<&JobName>),
        challenge: &[u8; CHALLENGE],
        nonce: [u8; 32],
    ) -> Proof {
        let mut bytes = Vec::with_capacity(CLAIM);
        bytes.extend(MAGIC);
        self.version.write(&mut bytes);
        bytes.extend(self.id.0);
        bytes.push(match self.purpose {
            Purpose::Meet => 0,
            Purpose::Link { has_table: false } => 1,
            Purpose::Link { has_table: true } => 2,
        });
        bytes.extend(self.from.to_le_bytes());
        bytes.extend(self.to.to_le_bytes());
        bytes.extend(nonce);
        if let Some(job) = job {
            bytes.truncate(CLAIM - 32 - SIGN);
            bytes.extend(job.sign(Side::Connects, challenge, &bytes));
        }
        let mac = secret.mac(Side::Connects, challenge, &bytes, 0).finalize();
        bytes.extend(mac.into_bytes());
        Proof { challenge: *challenge, claim: sized(&bytes) }
    }

    /// Decodes a claim without checking its proof; `None` if it is malformed.
    pub(super) fn read(bytes: &[u8; CLAIM]) -> Option<Self> {
        let (magic, rest) = bytes.split_at(4);
        let (version, rest) = rest.split_at(Version::BYTES);
        let (id, rest) = rest.split_at(16);
        let number =
            |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let purpose = match rest[0] {
            0 => Purpose::Meet,
            1 => Purpose::Link { has_table: false },
            2 => Purpose::Link { has_table: true },
            _ => return None,
        };
        let version = Version::read(version);
        let claim =
            Self { version, id: CommId(sized(id)), purpose, from: number(1), to: number(5) };
        (magic == MAGIC).then_some(claim)
    }
}

/// A challenge, and the claim that answers it.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    pub(super) challenge: [u8; CHALLENGE],
    pub(super) claim: [u8; CLAIM],
}

impl Proof {
    /// Whether the claim's proof matches the secret.
    pub(super) fn is_of(&self, secret: &Secret) -> bool {
        let (body, mac) = self.claim.split_at(CLAIM - 32);
        secret.mac(Side::Connects, &self.challenge, body, 0).verify_slice(mac).is_ok()
    }

    /// The encoded verdict, with a proof if there is a secret.
    pub(super) fn sign_verdict(&self, secret: Option<&Secret>, verdict: Verdict) -> [u8; VERDICT] {
        let mut bytes = [0; VERDICT];
        bytes[0] = verdict as u8;
        if let Some(secret) = secret {
            let mac = secret.mac(Side::Listens, &self.challenge, &self.claim, verdict as u8);
            bytes[1..].copy_from_slice(&mac.finalize().into_bytes());
        }
        bytes
    }

    /// The peer's verdict; `None` without a valid proof. [`Unproven`](Verdict::Unproven) and
    /// [`Unknown`](Verdict::Unknown) come without one, so any listener can send them: they are
    /// reported, but decide nothing.
    pub(super) fn verify_verdict(
        &self,
        secret: &Secret,
        verdict: &[u8; VERDICT],
    ) -> Option<Verdict> {
        match Verdict::of(verdict[0])? {
            decision @ (Verdict::Unproven | Verdict::Unknown) => Some(decision),
            decision => {
                let mac = secret.mac(Side::Listens, &self.challenge, &self.claim, verdict[0]);
                mac.verify_slice(&verdict[1..]).is_ok().then_some(decision)
            }
        }
    }
}
