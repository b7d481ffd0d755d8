//! Who may talk to a rank: both sides prove that they know the communicator's secret.
//!
//! Three messages of fixed length open every connection, in this layout for ever: the side that
//! listens sends a challenge, the side that connects a claim with its proof, the side that listens
//! a verdict with its own. Until a claim is proven, nothing else is read and nothing is allocated.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::ident::CommId;

const MAGIC: [u8; 4] = *b"tnCP";

/// The layout of frames: raised with every change of it.
const PROTOCOL: u16 = 3;

pub(super) const CHALLENGE: usize = 4 + Version::BYTES + 32;
pub(super) const CLAIM: usize = 4 + Version::BYTES + 16 + 1 + 4 + 4 + 32 + 32;
pub(super) const VERDICT: usize = 1 + 32;

/// What both sides know and nobody else.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret {
    key: [u8; 32],
    /// Nobody else knows it. If everybody does, nothing can be sealed with it.
    is_secret: bool,
}

impl Secret {
    pub(super) fn of_text(text: &str) -> Self {
        Self { key: Sha256::digest(text.as_bytes()).into(), is_secret: true }
    }

    pub(super) fn of_bytes(bytes: [u8; 32]) -> Self {
        Self { key: bytes, is_secret: true }
    }

    /// The same, which everybody may know.
    pub(super) fn public(self) -> Self {
        Self { is_secret: false, ..self }
    }

    pub(super) fn is_secret(&self) -> bool {
        self.is_secret
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.key
    }

    fn keyed(&self, side: Side, code: u8) -> Hmac<Sha256> {
        // A shorter key is one with zeros behind it.
        let mut key = [0; 64];
        key[..32].copy_from_slice(&self.key);
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&key.into());
        mac.update(&[side as u8, code]);
        mac
    }

    fn mac(&self, side: Side, challenge: &[u8; CHALLENGE], claim: &[u8], code: u8) -> Hmac<Sha256> {
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

/// Which program speaks: the protocol and the crate's version.
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
        let mut name = [0; 16];
        name.copy_from_slice(&bytes[2..Self::BYTES]);
        Self { protocol: u16::from_le_bytes([bytes[0], bytes[1]]), name }
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

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// To be told where the others are.
    Meet,
    /// To be a neighbour in a communicator's tree.
    Link {
        /// Whether this side has the table of its members.
        has_table: bool,
    },
}

/// What the side that connects says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    pub(super) version: Version,
    pub(super) id: CommId,
    pub(super) purpose: Purpose,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// How a claim was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Welcome = 1,
    /// It did not know the secret. Nobody can prove that to it.
    Unproven = 2,
    OtherVersion = 3,
    /// There is no such communicator here, nor a secret to prove anything with.
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

/// How much of a nonce can be a [`JobName`]'s sign.
const SIGN: usize = 16;

/// The name that a launcher gives a job. It is no secret: whoever knows it can tell that another
/// side knows it too, before anything is proven. To everybody else the sign of it looks random, and
/// it holds for one port, so nobody passes on what another port said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JobName(Secret);

impl JobName {
    pub(super) fn new(name: &str) -> Self {
        Self(Secret::of_text(&format!("the name of a job\n{name}")))
    }

    fn sign(&self, side: Side, challenge: &[u8], said: &[u8]) -> [u8; SIGN] {
        let mut mac = self.0.keyed(side, 0);
        mac.update(challenge);
        mac.update(said);
        sized(&mac.finalize().into_bytes()[..SIGN])
    }

    /// Whether the side that sent a challenge is of this job, as it says, and listens at `port`.
    pub(super) fn is_in_challenge(&self, challenge: &[u8; CHALLENGE], port: u16) -> bool {
        let (said, sign) = challenge.split_at(CHALLENGE - SIGN);
        self.sign(Side::Listens, said, &port.to_le_bytes()) == sign
    }

    /// Whether the side that sent a claim is of this job, as it says.
    pub(super) fn is_in_claim(&self, challenge: &[u8; CHALLENGE], claim: &[u8; CLAIM]) -> bool {
        let (said, rest) = claim.split_at(CLAIM - 32 - SIGN);
        self.sign(Side::Connects, challenge, said) == rest[..SIGN]
    }
}

/// A fresh challenge; of a job that listens at a port, if its name is given.
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

/// The version of the side that sent a challenge; none if it is none of ours.
pub(super) fn challenger(challenge: &[u8; CHALLENGE]) -> Option<Version> {
    (challenge[..4] == MAGIC).then(|| Version::read(&challenge[4..]))
}

impl Claim {
    /// The claim with its proof, as it is sent; of a job if its name is given.
    pub(super) fn prove(
        &self,
        (secret, job): (&Secret, Option<&JobName>),
        challenge: &[u8; CHALLENGE],
        nonce: [u8; 32],
    ) -> [u8; CLAIM] {
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
        sized(&bytes)
    }

    /// What a claim says, proven or not; none if it is none of ours.
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

/// Whether a claim proves that its side knows the secret.
pub(super) fn is_proven(secret: &Secret, challenge: &[u8; CHALLENGE], claim: &[u8; CLAIM]) -> bool {
    let (body, mac) = claim.split_at(CLAIM - 32);
    secret.mac(Side::Connects, challenge, body, 0).verify_slice(mac).is_ok()
}

/// The verdict with this side's proof, unless it has nothing to say to an unauthenticated peer.
pub(super) fn sign_verdict(
    secret: Option<&Secret>,
    challenge: &[u8; CHALLENGE],
    claim: &[u8; CLAIM],
    verdict: Verdict,
) -> [u8; VERDICT] {
    let mut bytes = [0; VERDICT];
    bytes[0] = verdict as u8;
    if let Some(secret) = secret {
        let mac = secret.mac(Side::Listens, challenge, claim, verdict as u8).finalize();
        bytes[1..].copy_from_slice(&mac.into_bytes());
    }
    bytes
}

/// What the other side decided; none if it did not prove that it knows the secret. Whoever listens
/// can say [`Unproven`](Verdict::Unproven) and [`Unknown`](Verdict::Unknown): they are told, and
/// not believed.
pub(super) fn verify_verdict(
    secret: &Secret,
    challenge: &[u8; CHALLENGE],
    claim: &[u8; CLAIM],
    verdict: &[u8; VERDICT],
) -> Option<Verdict> {
    match Verdict::of(verdict[0])? {
        decision @ (Verdict::Unproven | Verdict::Unknown) => Some(decision),
        decision => {
            let mac = secret.mac(Side::Listens, challenge, claim, verdict[0]);
            mac.verify_slice(&verdict[1..]).is_ok().then_some(decision)
        }
    }
}

fn sized<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut sized = [0; N];
    sized.copy_from_slice(bytes);
    sized
}
