//! An attacker between two ranks that have a secret changes bytes.

use super::*;
use proof::CHALLENGE;

/// Forwards one direction and flips a bit of the byte at `changed`.
fn forward(mut from: TcpStream, mut to: TcpStream, changed: Option<usize>) {
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

/// Connects two ranks through an attacker that changes one byte of each connection, sent by rank 1
/// or by rank 0.
fn meet_through(by_one: Option<usize>, by_zero: Option<usize>) -> [Node; 2] {
    let address = format!("127.0.0.1:{}", meets::free_port());
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let proxy = listener.local_addr().expect("its address").to_string();
    let target = address.clone();
    thread::spawn(move || {
        for one in listener.incoming() {
            let (Ok(one), Ok(zero)) = (one, TcpStream::connect(&target)) else { return };
            let (Ok(from_one), Ok(from_zero)) = (one.try_clone(), zero.try_clone()) else { return };
            thread::spawn(move || forward(from_one, zero, by_one));
            thread::spawn(move || forward(from_zero, one, by_zero));
        }
    });
    let come = |rank, address: &String| {
        Node::by(&process(), rank, 2, |joiner| {
            joiner.tcp(std::slice::from_ref(address), Secret::of_text("test"), None)
        })
    };
    [come(0, &address), come(1, &proxy)]
}

#[test]
fn a_proxy_that_changes_nothing_is_harmless() {
    let nodes = meet_through(None, None);
    for parts in all_well(each(&nodes, |rank, node| node.exchange("init", &[rank as u8], LIMIT))) {
        assert_eq!(parts.len(), 2);
    }
}

/// The ranks do not meet, and neither reads any changed data.
#[test]
fn a_byte_changed_after_the_proof_is_never_read() {
    let (by_one, by_zero) = (CLAIM, CHALLENGE + VERDICT);
    let at_each = |at| [(Some(by_one + at), None), (None, Some(by_zero + at))];
    // In record lengths, in keys, and in ciphertext.
    let changes: Vec<_> = [0, 1, 40, 60, 90, 91, 92].into_iter().flat_map(at_each).collect();
    thread::scope(|scope| {
        for (by_one, by_zero) in changes {
            scope.spawn(move || {
                // Rank 1 reads the changed record and says so; a record whose length grew is
                // complete only with later ones, if ever.
                let is_whole = by_zero.is_some_and(|at| at >= CHALLENGE + VERDICT + 2);
                let (nodes, started) = (meet_through(by_one, by_zero), Instant::now());
                let named = each(&nodes, |rank, node| {
                    let limit = if is_whole && rank == 1 { LIMIT } else { Duration::from_secs(3) };
                    loop {
                        let brief = Duration::from_millis(100);
                        let outcome = node.exchange("init", &[rank as u8], brief);
                        let error = outcome.expect_err("something was changed").to_string();
                        assert!(
                            !error.contains("what no rank sends"),
                            "{by_one:?}, {by_zero:?}: {error}"
                        );
                        let named = error.contains("was changed, repeated or left out");
                        if named || started.elapsed() >= limit {
                            return named;
                        }
                    }
                });
                assert!(named[1] || !is_whole, "{by_one:?}, {by_zero:?}");
            });
        }
    });
}
