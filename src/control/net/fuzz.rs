//! Malformed bytes for decoders and for live ranks.
//!
//! A sender of malformed bytes can end its own connection. If it knows the secret of a
//! communicator, it can also fail that communicator, with an error on every rank. The process, its
//! other communicators and new ones must be unaffected.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::frame;
use super::hub::Hub;
use super::ident::CommId;
use super::message::{Contributions, Failure, Hello, Left, Member, Message, Table, Tell};
use super::proof::{
    self, CHALLENGE, CLAIM, Claim, Proof, Purpose, Secret, VERDICT, Verdict, Version,
};
use super::simulate::{Seated, exchange};
use super::unique::{BootstrapHandle, UniqueId};
use crate::Result;
use crate::error::{Error, Site};

/// The limit for one step of a round.
const LIMIT: Duration = Duration::from_secs(20);

/// How long an attacker waits for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The number of inputs to decode in a round.
const INPUTS: u64 = 2000;

/// The size of the communicator under attack.
const VICTIMS: usize = 3;

/// What was tried.
#[derive(Clone, Copy, Default, Debug)]
pub struct Thrown {
    /// Decoded inputs.
    pub inputs: u64,
    /// Inputs among them that contained a message.
    pub messages: u64,
    /// Connections to live ranks.
    pub connections: u64,
    /// Connections among them that passed the proof.
    pub proven: u64,
}

/// Runs one round.
///
/// # Errors
/// A violation of the guarantees above.
pub fn throw(seed: u64) -> Result<Thrown> {
    let dice = &mut Dice(seed);
    let mut thrown = Thrown::default();
    for _ in 0..INPUTS {
        thrown.inputs += 1;
        thrown.messages += u64::from(decode(&bytes(dice)));
    }
    attack(dice, &mut thrown)?;
    Ok(thrown)
}

/// A seeded sequence of numbers.
pub(in crate::control) struct Dice(pub(in crate::control) u64);

impl Dice {
    pub(in crate::control) fn roll(&mut self, below: usize) -> usize {
        // A step of Knuth's generator, whose upper bits are the good ones.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % below.max(1)
    }

    pub(super) fn byte(&mut self) -> u8 {
        u8::try_from(self.roll(256)).unwrap_or(0)
    }

    pub(super) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.roll(most + 1)).map(|_| self.byte()).collect()
    }

    fn number(&mut self) -> u32 {
        let sizes = [0, 1, 2, 3, 16, 17, 255, 4096, 1 << 20, u32::MAX];
        sizes[self.roll(sizes.len())]
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.bytes(40)).into_owned()
    }
}

/// Runs every decoder of peers' bytes; whether there was a message.
fn decode(bytes: &[u8]) -> bool {
    let (mut rest, mut any) = (bytes, false);
    while let Ok(Some(content)) = frame::next(rest, frame::MOST_BOOTSTRAP) {
        any |= postcard::from_bytes::<Message<'_>>(&rest[content.clone()]).is_ok();
        rest = &rest[content.end..];
    }
    if let Some((claim, _)) = bytes.split_first_chunk::<CLAIM>() {
        let _ = Claim::read(claim);
    }
    if let Some((challenge, _)) = bytes.split_first_chunk::<CHALLENGE>() {
        let _ = proof::challenger(challenge).map(|version| version.to_string());
    }
    if let Some((id, _)) = bytes.split_first_chunk() {
        let _ = UniqueId::from_bytes(*id).place();
    }
    let _ = Table::decode(bytes, 3);
    any
}

/// A few frames: noise, messages, or mutated messages.
fn bytes(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=dice.roll(4) {
        match dice.roll(4) {
            0 => bytes.extend(dice.bytes(300)),
            1 => frame::push(&mut bytes, |bytes| {
                // The first byte selects the message.
                bytes.push(u8::try_from(dice.roll(14)).unwrap_or(0));
                bytes.extend(dice.bytes(40));
            }),
            _ => message(dice, &mut bytes),
        }
    }
    for _ in 0..dice.roll(6) {
        change(dice, &mut bytes);
    }
    bytes
}

/// One mutation, biased towards lengths and numbers.
fn change(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let at = dice.roll(bytes.len());
    let Some(byte) = bytes.get_mut(at) else { return };
    match dice.roll(7) {
        0 => *byte ^= 1 << dice.roll(8),
        1 => *byte = [0, 1, 0x7f, 0x80, 0xff][dice.roll(5)],
        2 => bytes.truncate(at),
        3 => bytes.insert(at, dice.byte()),
        4 => drop(bytes.drain(at..(at + 1 + dice.roll(8)).min(bytes.len()))),
        5 => drop(bytes.splice(at..at, [0xff; 9])),
        _ => {
            let end = (at + dice.roll(40)).min(bytes.len());
            let again = bytes[at..end].to_vec();
            bytes.extend(again);
        }
    }
}

/// Appends a message with random contents.
fn message(dice: &mut Dice, output: &mut Vec<u8>) {
    let (text, long) = (dice.text(), dice.bytes(60));
    let part = |dice: &mut Dice| (dice.number().min(4), dice.number().min(4));
    let parts: Vec<(u32, u32)> = (0..dice.roll(4)).map(|_| part(dice)).collect();
    let ranks = (0..dice.roll(4)).map(|_| dice.number()).collect();
    let message = match dice.roll(13) {
        0 => Message::Hello(Hello {
            rank: dice.number(),
            size: dice.number(),
            seat: 1,
            job: text.as_str().into(),
            member: member(dice),
        }),
        1 => Message::Welcome { id: CommId([dice.byte(); 16]), ancestors: vec![member(dice)] },
        2 => Message::Later(dice.number()),
        3 => Message::Linked,
        4 => Message::Missing { count: dice.number(), ranks },
        5 => Message::Table(&long),
        6 => Message::Fail(Failure { size: dice.number(), ranks, why: text }),
        7 | 8 => {
            let part = |&(first, last): &(u32, u32)| Contributions { first, last, bytes: &long };
            let seq = [0, 1, 2, 3, 1 << 16, u64::MAX][dice.roll(6)];
            let (topic, site) = (["barrier", "finish", &text][dice.roll(3)], Site::caller());
            Message::Parts { seq, topic, site, parts: parts.iter().map(part).collect() }
        }
        9 => Message::Left(Left {
            rank: dice.number(),
            why: text,
            dropped: dice.roll(2) == 0,
            gone: dice.roll(2) == 0,
            unready: dice.roll(2) == 0,
            stopped: dice.roll(2) == 0,
            died: dice.roll(2) == 0,
            split: dice.number().into(),
        }),
        10 => {
            let to = Some(dice.number()).filter(|to| *to != 0);
            let channel = dice.number().into();
            let (from, number, bytes) =
                (dice.number(), dice.number().into(), long.as_slice().into());
            Message::Tell(Tell { from, to, channel, number, bytes })
        }
        11 => Message::Beat,
        _ => Message::Bye { all_finished: dice.roll(2) == 0 },
    };
    message.push(output);
}

fn member(dice: &mut Dice) -> Member {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    Member {
        host: dice.text(),
        host_number: dice.number().into(),
        pid: dice.number(),
        process: dice.number().into(),
        addresses: vec![address; dice.roll(20)],
    }
}

/// Attacks a communicator, and checks that another one is unaffected.
fn attack(dice: &mut Dice, thrown: &mut Thrown) -> Result<()> {
    let hub = Hub::start(Duration::from_secs(1))?;
    let seated = |size| {
        let (place, all) = Seated::all(&hub, size)?;
        exchange(&all, "init", LIMIT, |_| Vec::new()).into_iter().collect::<Result<Vec<_>>>()?;
        Ok::<_, Error>((place, all))
    };
    let (_, others) = seated(2)?;
    let (place, victims) = seated(VICTIMS)?;
    let id = victims[0].comm_id().ok_or_else(|| Error::other("they have met without an id"))?;
    // A rendezvous without ranks.
    let empty = Seated::place(&hub)?;
    for _ in 0..8 {
        thrown.connections += 1;
        attack_without_secret(dice, &place);
        thrown.connections += 1;
        let meet =
            Claim { version: Version::own(), id: empty.id, purpose: Purpose::Meet, from: 0, to: 0 };
        thrown.proven += u64::from(attack_with_secret(dice, &empty, meet));
    }
    let neighbours = 1 + dice.roll(2);
    for _ in 0..neighbours {
        thrown.connections += 1;
        let (from, to) = (1 + dice.roll(VICTIMS - 1), dice.roll(VICTIMS));
        let (from, to) = (u32::try_from(from).unwrap_or(0), u32::try_from(to).unwrap_or(0));
        let purpose = Purpose::Link { has_table: dice.roll(2) == 0 };
        let claim = Claim { version: Version::own(), id, purpose, from, to };
        thrown.proven += u64::from(attack_with_secret(dice, &place, claim));
    }
    // Any error is allowed, but each rank must return.
    for outcome in exchange(&victims, "barrier", LIMIT, |_| Vec::new()) {
        if let Err(error @ Error::Other(_)) = outcome {
            return Err(error);
        }
    }
    exchange(&others, "barrier", LIMIT, |_| Vec::new()).into_iter().collect::<Result<Vec<_>>>()?;
    seated(2).map(drop)
}

/// Connects and sends noise, at once or after a wrong proof.
fn attack_without_secret(dice: &mut Dice, place: &BootstrapHandle) {
    let outcome = (|| {
        let mut peer = connect(place)?;
        if dice.roll(2) == 0 {
            let claim = Claim {
                version: Version::own(),
                id: place.id,
                purpose: Purpose::Meet,
                from: dice.number(),
                to: 0,
            };
            let guessed = Secret::of_text("guessed");
            let proof = claim.prove((&guessed, None), &challenge(&mut peer)?, [1; 32]);
            let mut claim = proof.claim.to_vec();
            change(dice, &mut claim);
            peer.write_all(&claim)?;
        }
        peer.write_all(&bytes(dice))
    })();
    ended(outcome);
}

/// Passes the proof and sends noise; whether it was let in.
fn attack_with_secret(dice: &mut Dice, place: &BootstrapHandle, claim: Claim) -> bool {
    let mut is_in = false;
    let outcome = (|| {
        let (mut peer, proof, verdict) = come(place, &claim, &place.secret)?;
        is_in = proof.verify_verdict(&place.secret, &verdict) == Some(Verdict::Welcome);
        peer.write_all(&bytes(dice))
    })();
    ended(outcome);
    is_in
}

/// Claims a rank at a rendezvous, with this secret; what was said, and the verdict.
pub(super) fn come(
    place: &BootstrapHandle,
    claim: &Claim,
    secret: &Secret,
) -> io::Result<(TcpStream, Proof, [u8; VERDICT])> {
    let mut peer = connect(place)?;
    let proof = claim.prove((secret, None), &challenge(&mut peer)?, [1; 32]);
    peer.write_all(&proof.claim)?;
    let mut verdict = [0; VERDICT];
    peer.read_exact(&mut verdict)?;
    Ok((peer, proof, verdict))
}

fn connect(place: &BootstrapHandle) -> io::Result<TcpStream> {
    let peer = TcpStream::connect(place.addresses[0])?;
    peer.set_read_timeout(Some(ANSWER))?;
    Ok(peer)
}

fn challenge(peer: &mut TcpStream) -> io::Result<[u8; CHALLENGE]> {
    let mut challenge = [0; CHALLENGE];
    peer.read_exact(&mut challenge)?;
    Ok(challenge)
}

/// Attackers expect their connections to be closed.
fn ended(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        log::trace!("{error}");
    }
}
