//! Two processes for real: a test starts this binary again, as a child that plays a part.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bell::sleep;
use super::map::HEAP;
use super::stand_in::take_turn;
use super::{Address, Peer, connect, drain, forget, has_news, open, send};
use crate::lock::MutexGuard;

const PART: &str = "TYPED_NCCL_TEST_PART";
const WITHIN: Duration = Duration::from_secs(20);

struct Other {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    peer: Arc<Peer>,
    _turn: MutexGuard<'static, ()>,
}

fn to_bytes(address: &Address) -> Vec<u8> {
    postcard::to_stdvec(address).expect("it can be written")
}

fn to_text(address: &Address) -> String {
    to_bytes(address).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_text(text: &str) -> Address {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
    postcard::from_bytes(&bytes).expect("an address")
}

fn own() -> Address {
    open().and_then(|arena| arena.address()).expect("there is memory").clone()
}

impl Other {
    fn start(part: &str) -> Self {
        let turn = take_turn();
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "host::shared::tests::a_child_plays_its_part", "--nocapture"])
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        writeln!(stdin, "{}", to_text(&own())).expect("it reads");
        let address = said(&mut stdout);
        let peer = connect(&from_text(&address), WITHIN).expect("it lets us in");
        assert_eq!(said(&mut stdout), "connected");
        Self { child, stdin, stdout, peer, _turn: turn }
    }

    fn hears(&mut self) -> String {
        said(&mut self.stdout)
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("it reads");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        forget(self.peer.id());
    }
}

/// What a child said, past what the test harness says.
fn said(from: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        assert!(from.read_line(&mut line).expect("it can be read") > 0, "the child ended");
        if let Some((_, said)) = line.split_once("says ") {
            return said.trim().to_owned();
        }
    }
}

fn say(line: impl std::fmt::Display) {
    println!("says {line}");
}

fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent writes");
    line.trim().to_owned()
}

#[test]
fn a_child_plays_its_part() {
    let Ok(part) = std::env::var(PART) else { return };
    assert!(!inherits(), "the parent's memory came with exec");
    let parent = from_text(&hear());
    say(to_text(&own()));
    let peer = connect(&parent, WITHIN).expect("the parent lets us in");
    say("connected");
    match part.as_str() {
        "memory" => memory(&peer),
        "echo" => echo(),
        "slow" => slow(),
        "sleeper" => sleeper(),
        "silent" => drop(hear()),
        other => panic!("no part {other}"),
    }
}

/// Whether this process, which has no arena, has one all the same.
fn inherits() -> bool {
    let open = std::fs::read_dir("/proc/self/fd").expect("there is procfs");
    let files = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let maps = std::fs::read_to_string("/proc/self/maps").expect("there is procfs");
    files.map(|to| to.display().to_string()).chain([maps]).any(|text| text.contains("typed-nccl ("))
}

/// Adds one to what the parent wrote, and shows a piece of its own.
fn memory(peer: &Peer) {
    let offset = hear().parse().expect("an offset");
    let at = peer.at(offset, 8).expect("it lies inside").cast::<u64>();
    // SAFETY: the parent's piece, aligned and zeroed, and the parent waits for our line.
    unsafe { *at += 1 };
    let piece = open().expect("there is one").alloc(8, 8).expect("there is room");
    // SAFETY: our piece, which nobody else knows.
    unsafe { *piece.start().cast::<u64>() = 7 };
    say(piece.offset());
    hear();
}

#[test]
fn memory_is_shared_both_ways() {
    let mut other = Other::start("memory");
    let piece = open().expect("there is one").alloc(8, 8).expect("there is room");
    let at = piece.start().cast::<u64>();
    // SAFETY: our piece, and the child knows nothing of it yet.
    unsafe { *at = 41 };
    other.tell(&piece.offset().to_string());
    let theirs = other.hears().parse().expect("an offset");
    // SAFETY: the child has said that it is done.
    assert_eq!(unsafe { *at }, 42);
    let theirs = other.peer.at(theirs, 8).expect("it lies inside").cast::<u64>();
    // SAFETY: the child's piece, which it keeps until our next line.
    assert_eq!(unsafe { *theirs }, 7);
    assert!(other.peer.at(HEAP as u64 - 1, 1).is_none());
    assert!(other.peer.at(u64::MAX, 2).is_none());
    assert!(other.peer.at(HEAP as u64, usize::MAX).is_none());
}

/// Sends back all that comes, until an empty record.
fn echo() {
    let mut goes_on = true;
    while goes_on {
        while !has_news() {
            std::hint::spin_loop();
        }
        drain(&mut |_, record| {
            let record = record.expect("it is whole");
            goes_on = !record.is_empty();
            send(record);
        });
    }
    // What waits for room goes with the process.
    hear();
}

#[test]
fn records_come_back_in_order() {
    let other = Other::start("echo");
    let (mut next, mut empty) = (0_u64, false);
    for number in 0..1000_u64 {
        send(&number.to_le_bytes());
    }
    let large: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    send(&large);
    send(&[]);
    let deadline = Instant::now() + WITHIN;
    let mut came = 0;
    while !empty && Instant::now() < deadline {
        sleep(Duration::from_millis(100));
        drain(&mut |peer, record| {
            let record = record.expect("it is whole");
            assert_eq!(peer, other.peer.id());
            match record.len() {
                0 => empty = true,
                8 => {
                    assert_eq!(record, next.to_le_bytes());
                    next += 1;
                }
                _ => {
                    assert!(record == large, "{} bytes", record.len());
                    came += 1;
                }
            }
        });
    }
    assert_eq!((next, came, empty), (1000, 1, true));
}

/// A fixed sequence that looks random.
fn lengths() -> impl Iterator<Item = usize> {
    let mut state = 1_u64;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Mostly small, as events are.
        Some((state >> 48) as usize >> ((state >> 40) % 16))
    })
}

const RECORDS: usize = 100_000;

/// Checks every record, and is in no hurry.
fn slow() {
    let (mut lengths, mut count) = (lengths(), 0);
    while count < RECORDS {
        sleep(Duration::from_secs(1));
        drain(&mut |_, record| {
            let record = record.expect("it is whole");
            let byte = count as u8;
            assert_eq!(Some(record.len()), lengths.next(), "record {count}");
            assert!(record.iter().all(|other| *other == byte), "record {count}");
            count += 1;
            if count % 10_000 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    }
    say("all came");
    hear();
}

#[test]
fn a_slow_reader_gets_all_in_order() {
    let mut other = Other::start("slow");
    for (number, length) in lengths().take(RECORDS).enumerate() {
        send(&vec![number as u8; length]);
    }
    assert_eq!(other.hears(), "all came");
}

#[test]
fn a_dead_reader_stops_nobody() {
    let mut other = Other::start("silent");
    for dies in [false, true] {
        if dies {
            // It is waited for as long as it lives.
            assert!(super::LOG.lock().waits());
            other.child.kill().expect("it runs");
        }
        for _ in 0..100 {
            send(&[1; 60_000]);
        }
    }
    // Nobody forgets it: that it has ended is enough.
    let deadline = Instant::now() + WITHIN;
    while super::LOG.lock().waits() {
        assert!(Instant::now() < deadline, "the dead one is waited for");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says when it was woken.
fn sleeper() {
    for _ in 0..20 {
        let mut came = false;
        while !came {
            sleep(WITHIN);
            drain(&mut |_, _| came = true);
        }
        say("woken");
    }
}

#[test]
fn a_sleeper_wakes_at_once() {
    let mut other = Other::start("sleeper");
    for pause in 0..20 {
        std::thread::sleep(Duration::from_millis(pause % 3));
        let start = Instant::now();
        send(b"up");
        assert_eq!(other.hears(), "woken");
        assert!(start.elapsed() < WITHIN, "a wake-up was lost");
    }
}

#[test]
fn who_does_not_know_the_secret_is_refused() {
    let _turn = take_turn();
    let address = own();
    let mut text = to_text(&address);
    // The last byte of the token: the name, of 16 bytes, is before it.
    let wrong = if text.as_bytes()[94] == b'0' { "1" } else { "0" };
    text.replace_range(94..95, wrong);
    let refused = super::doorman::visit(&from_text(&text), 2, WITHIN).map(|(_, place)| place.slot);
    let error = refused.expect_err("the secret is wrong");
    let kinds = [std::io::ErrorKind::PermissionDenied, std::io::ErrorKind::ConnectionReset];
    assert!(kinds.contains(&error.kind()), "{error:?}");
    assert_eq!(
        connect(&address, WITHIN).map(drop).expect_err("our own").kind(),
        std::io::ErrorKind::InvalidInput
    );
}

#[test]
fn a_silent_stranger_stops_nobody_for_long() {
    let _turn = take_turn();
    let address = own();
    let name = SocketAddr::from_abstract_name(&to_bytes(&address)[..16]).expect("a name");
    let strangers = [(); 2].map(|()| UnixStream::connect_addr(&name).expect("anybody may"));
    let (_, place) = super::doorman::visit(&address, 2, WITHIN).expect("our turn comes");
    super::LOG.lock().leave(open().expect("there is one").header(), place);
    drop(strangers);
}

#[test]
fn nobody_at_an_address_is_found_out_at_once() {
    let _turn = take_turn();
    let mut text = to_text(&own());
    text.replace_range(0..8, "00000000");
    let mut nobody = from_text(&text);
    nobody.id ^= 4;
    let error = connect(&nobody, WITHIN).map(drop).expect_err("nobody is there");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}
