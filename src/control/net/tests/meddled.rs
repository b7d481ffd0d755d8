//! Somebody on the way between two ranks changes what they say, for ranks that have a secret.

use super::*;
use proof::CHALLENGE;

/// Passes on what one side says; the byte at `changed`, if any, becomes another.
fn pass_on(mut from: TcpStream, mut to: TcpStream, changed: Option<usize>) {
    let (mut passed, mut bytes) = (0, [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(at) = changed.and_then(|at| at.checked_sub(passed)).filter(|at| *at < count) {
            bytes[at] ^= 1;
        }
        passed += count;
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Two ranks of which one reaches the other through somebody who changes bytes of each connection:
/// one that rank 1 says, or one that rank 0 says.
fn meet_through(by_one: Option<usize>, by_zero: Option<usize>) -> Vec<Result<Parts>> {
    let address = format!("127.0.0.1:{}", meets::free_port());
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let way = listener.local_addr().expect("its address").to_string();
    let target = address.clone();
    thread::spawn(move || {
        for one in listener.incoming() {
            let (Ok(one), Ok(zero)) = (one, TcpStream::connect(&target)) else { return };
            let (Ok(from_one), Ok(from_zero)) = (one.try_clone(), zero.try_clone()) else { return };
            thread::spawn(move || pass_on(from_one, zero, by_one));
            thread::spawn(move || pass_on(from_zero, one, by_zero));
        }
    });
    let come = |rank, address: &String| {
        Node::by(&process(), rank, 2, |joiner| {
            joiner.tcp(std::slice::from_ref(address), Secret::of_text("test"), None)
        })
    };
    let nodes = [come(0, &address), come(1, &way)];
    each(&nodes, |rank, node| node.exchange("init", &[rank as u8], Duration::from_secs(3)))
}

#[test]
fn who_only_passes_on_keeps_nobody_from_meeting() {
    for parts in all_well(meet_through(None, None)) {
        assert_eq!(parts.len(), 2);
    }
}

/// The ranks do not meet, and none of them reads anything of what was changed.
#[test]
fn a_byte_that_was_changed_after_the_proof_is_believed_by_nobody() {
    let (by_one, by_zero) = (CLAIM, CHALLENGE + VERDICT);
    let at_each = |at| [(Some(by_one + at), None), (None, Some(by_zero + at))];
    // In the lengths of records, in the keys, and in what is sealed.
    let changes: Vec<_> = [0, 1, 40, 60, 90, 91, 92].into_iter().flat_map(at_each).collect();
    thread::scope(|scope| {
        for (by_one, by_zero) in changes {
            scope.spawn(move || {
                let mut named = false;
                for outcome in meet_through(by_one, by_zero) {
                    let error = outcome.expect_err("something was changed").to_string();
                    assert!(
                        !error.contains("what no rank sends"),
                        "{by_one:?}, {by_zero:?}: {error}"
                    );
                    named |= error.contains("was changed, repeated or left out");
                }
                // Rank 1 hears of it where it reads the record; a length that grew ends at the
                // deadline.
                let is_whole = by_zero.is_some_and(|at| at >= CHALLENGE + VERDICT + 2);
                assert_eq!(named, is_whole, "{by_one:?}, {by_zero:?}");
            });
        }
    });
}
