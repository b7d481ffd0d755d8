//! Who does not know the secret, and who knows it and talks nonsense.

use super::*;

#[test]
fn who_does_not_know_the_secret_stays_outside_and_is_told() {
    let hub = process();
    let place = place(&hub);
    let wrong = Place {
        secret: Secret::of_text("guessed"),
        id: place.id,
        addresses: place.addresses.clone(),
    };
    let stranger = Node::come(&hub, &wrong, 1, 2);
    let error = stranger.exchange("init", b"", BRIEF).expect_err("it does not know the secret");
    assert!(error.to_string().contains("TYPED_NCCL_SECRET"), "{error}");
    let nodes: Vec<_> = (0..2).map(|rank| Node::come(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
}

/// Who is refused without a proof waits until its deadline.
const BRIEF: Duration = Duration::from_secs(2);

/// Garbage, silence, frames of 4 GiB, and more connections than are kept: the ranks meet all the same.
#[test]
fn strangers_keep_nobody_from_meeting() {
    let hub = process();
    let place = place(&hub);
    let address = place.addresses[place.addresses.len() - 1];
    let mut strangers = Vec::new();
    for n in 0..1500_u32 {
        let Ok(mut stranger) = TcpStream::connect(address) else { continue };
        match n % 3 {
            0 => {}
            1 => drop(stranger.write_all(&[0xff; 4096])),
            _ => drop(stranger.write_all(&u32::MAX.to_le_bytes())),
        }
        strangers.push(stranger);
    }
    let nodes: Vec<_> = (0..5).map(|rank| Node::come(&hub, &place, rank, 5)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    drop(strangers);
}

/// What a stranger can learn: a challenge, and that it was refused.
#[test]
fn a_stranger_learns_nothing() {
    let hub = process();
    let place = place(&hub);
    let address = place.addresses[place.addresses.len() - 1];
    let mut stranger = TcpStream::connect(address).expect("somebody listens");
    stranger.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut challenge = [0; proof::CHALLENGE];
    stranger.read_exact(&mut challenge).expect("a challenge");
    let (version, id, purpose) = (Version::own(), place.id, Purpose::Meet);
    let claim = Claim { version, id, purpose, from: 0, to: 0 };
    let claim: [u8; CLAIM] = claim.prove(&Secret::of_text("guessed"), &challenge, [1; 32]);
    stranger.write_all(&claim).expect("it is read");
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).expect("an answer, and the end");
    assert_eq!(answer.len(), VERDICT);
    assert!(answer[1..].iter().all(|byte| *byte == 0), "it is no proof that could be passed on");
}

#[test]
fn a_frame_of_4_gib_ends_its_connection_and_takes_no_memory() {
    let hub = process();
    let place = place(&hub);
    let address = place.addresses[place.addresses.len() - 1];
    let mut peer = TcpStream::connect(address).expect("somebody listens");
    peer.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut challenge = [0; proof::CHALLENGE];
    peer.read_exact(&mut challenge).expect("a challenge");
    let (version, id, purpose) = (Version::own(), place.id, Purpose::Meet);
    let claim = Claim { version, id, purpose, from: 0, to: 0 };
    peer.write_all(&claim.prove(&place.secret, &challenge, [1; 32])).expect("it is read");
    let mut verdict = [0; VERDICT];
    peer.read_exact(&mut verdict).expect("a verdict");
    peer.write_all(&u32::MAX.to_le_bytes()).expect("it is read");
    let mut rest = Vec::new();
    assert!(matches!(peer.read_to_end(&mut rest), Ok(0) | Err(_)), "the connection ends");
    let nodes: Vec<_> = (0..2).map(|rank| Node::come(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
}

/// Listens where rank 0 should, and is found there by rank 1 of 2.
fn pose() -> (std::net::TcpListener, Node) {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let node = Node::by(&process(), 1, 2, |comer| {
        comer.tcp(std::slice::from_ref(&address), Secret::of_text("test"), false)
    });
    (listener, node)
}

/// Who listens at rank 0's address gets a claim, whose proof is for its challenge alone, and nothing more.
#[test]
fn who_poses_as_rank_0_learns_nothing() {
    let (listener, node) = pose();
    let (mut peer, _) = listener.accept().expect("it comes");
    peer.set_read_timeout(Some(LIMIT)).expect("a limit");
    let challenge = proof::challenge([7; 32]);
    peer.write_all(&challenge).expect("it is read");
    let mut claim = [0; CLAIM];
    peer.read_exact(&mut claim).expect("a claim");
    assert!(proof::is_proven(&Secret::of_text("test"), &challenge, &claim));
    let guessed = Secret::of_text("guessed");
    let verdict = proof::judge(Some(&guessed), &challenge, &claim, proof::Verdict::Welcome);
    peer.write_all(&verdict).expect("it is read");
    let mut rest = Vec::new();
    assert!(matches!(peer.read_to_end(&mut rest), Ok(0) | Err(_)), "{rest:?}");
    let error = node.exchange("init", b"", BRIEF).expect_err("nobody is there").to_string();
    assert!(error.contains("TYPED_NCCL_SECRET"), "{error}");
}

/// Whatever somebody says at rank 0's address without a proof, the ranks meet when rank 0 has come.
#[test]
fn no_verdict_counts_without_a_proof() {
    for code in 0..8 {
        let (listener, node) = pose();
        let address = listener.local_addr().expect("its address").to_string();
        let (mut peer, _) = listener.accept().expect("it comes");
        peer.set_read_timeout(Some(LIMIT)).expect("a limit");
        peer.write_all(&proof::challenge([7; 32])).expect("it is read");
        peer.read_exact(&mut [0; CLAIM]).expect("a claim");
        let mut verdict = [9; VERDICT];
        verdict[0] = code;
        peer.write_all(&verdict).expect("it is read");
        let mut rest = Vec::new();
        assert!(matches!(peer.read_to_end(&mut rest), Ok(0) | Err(_)), "{rest:?}");
        drop((peer, listener));
        let first = Node::by(&process(), 0, 2, |comer| {
            comer.tcp(std::slice::from_ref(&address), Secret::of_text("test"), false)
        });
        let both = [first, node];
        for outcome in each(&both, |_, node| node.exchange("init", b"", LIMIT)) {
            outcome.unwrap_or_else(|error| panic!("verdict {code}: {error}"));
        }
    }
}

/// A place where the ranks have met says so with a proof, and to those alone who prove themselves.
#[test]
fn that_a_meeting_is_over_is_proven() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> = (0..2).map(|rank| Node::come(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let address = place.addresses[place.addresses.len() - 1];
    let (version, id, purpose) = (Version::own(), place.id, Purpose::Meet);
    let claim = Claim { version, id, purpose, from: 1, to: 0 };
    let guessed = Secret::of_text("guessed");
    let is_over = || {
        let asked = |secret: &Secret| {
            let mut peer = TcpStream::connect(address).expect("somebody listens");
            peer.set_read_timeout(Some(LIMIT)).expect("a limit");
            let mut challenge = [0; proof::CHALLENGE];
            peer.read_exact(&mut challenge).expect("a challenge");
            let claim: [u8; CLAIM] = claim.prove(secret, &challenge, [1; 32]);
            peer.write_all(&claim).expect("it is read");
            let mut verdict = [0; VERDICT];
            peer.read_exact(&mut verdict).expect("a verdict");
            (proof::judged(&place.secret, &challenge, &claim, &verdict), verdict)
        };
        let (to_stranger, bytes) = asked(&guessed);
        assert_eq!(to_stranger, Some(proof::Verdict::Unproven), "it learns nothing");
        assert!(bytes[1..].iter().all(|byte| *byte == 0), "{bytes:?}");
        let (to_rank, bytes) = asked(&place.secret);
        let is_over = to_rank == Some(proof::Verdict::Ended);
        assert!(!is_over || bytes[1..].iter().any(|byte| *byte != 0), "it is proven: {bytes:?}");
        is_over
    };
    let started = Instant::now();
    while !is_over() {
        assert!(started.elapsed() < LIMIT, "all ranks have their places");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_listens_and_says_nothing_is_named() {
    let (listener, node) = pose();
    let error = node.exchange("init", b"", Duration::from_secs(5)).expect_err("nobody answers");
    let address = listener.local_addr().expect("its address").to_string();
    let error = error.to_string();
    assert!(error.contains(&address) && error.contains("it does not answer"), "{error}");
}
