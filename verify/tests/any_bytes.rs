//! A file may hold anything: it is read or refused, and nothing panics.

#[path = "schedules/msccl.rs"]
#[expect(dead_code, reason = "other tests change steps")]
mod msccl;
#[path = "schedules/mscclpp.rs"]
#[expect(dead_code, reason = "other tests change operations")]
mod mscclpp;

use std::process::Command;

use proptest::prelude::*;
use typed_nccl_verify::{Reason, verify};

fn texts() -> Vec<String> {
    let xml = [msccl::ring(3), msccl::all_pairs(3), msccl::two_steps()].map(|algo| algo.xml());
    let json = [mscclpp::all_gather(3), mscclpp::packets(2), mscclpp::ports()];
    xml.into_iter().chain(json.map(|plan| plan.to_string())).collect()
}

#[test]
fn a_file_that_ends_too_early_is_unreadable() {
    for text in texts() {
        for end in (0..text.trim_end().len()).step_by(7) {
            let read = verify(&text.as_bytes()[..end], "cut");
            assert!(read.is_err(), "{}", &text[..end]);
        }
    }
}

#[test]
fn depth_is_bounded() {
    for text in ["<a>".repeat(300_000), "{\"gpus\":".repeat(300_000), "[".repeat(300_000)] {
        assert!(verify(text.as_bytes(), "deep").is_err());
    }
    let within = format!("<algo>{}{}</algo>", "<gpu>".repeat(100_000), "</gpu>".repeat(100_000));
    assert!(verify(within.as_bytes(), "deep").is_err());
}

#[test]
fn sizes_are_bounded() {
    let xml = msccl::ring(2).xml();
    let many = xml.replace("nchunksperloop=\"2\"", "nchunksperloop=\"2000000\"");
    let read = verify(many.as_bytes(), "large").expect_err("it is too large");
    assert!(matches!(read.reason, Reason::TooLarge { what: "chunks", .. }), "{read}");
    let json = mscclpp::all_gather(2).to_string();
    for (from, to) in [
        ("\"input_chunks\":1", "\"input_chunks\":4000000000"),
        ("\"index\":0,\"size\":1", "\"index\":4294967295,\"size\":4294967295"),
    ] {
        let many = json.replace(from, to);
        assert_ne!(many, json);
        let is_right = verify(many.as_bytes(), "large").is_ok_and(|report| report.is_right());
        assert!(!is_right);
    }
}

#[test]
fn errors_name_the_place() {
    let xml = msccl::ring(2).xml();
    let read = |from: &str, to: &str| {
        let error = verify(xml.replacen(from, to, 1).as_bytes(), "a.xml");
        error.expect_err("it is unreadable").to_string()
    };
    assert_eq!(read(" cnt=\"1\"", ""), "a.xml:4:1: `<step>` has no attribute `cnt`");
    let wrong = read("depid=\"-1\"", "depid=\"x\"");
    assert!(wrong.starts_with("a.xml:4:"), "{wrong}");
    assert!(wrong.contains("`depid` is `x`, which is not a number from -1 to"), "{wrong}");
    assert!(read("type=\"s\"", "type=\"t\"").contains("`type` is `t`, which is not one of s, r"));
    let json = format!("{:#}", mscclpp::all_gather(2)).replacen("\"copy\"", "7", 1);
    let error = verify(json.as_bytes(), "b.json").expect_err("it is unreadable").to_string();
    let line = 1 + json.lines().position(|line| line.contains("\"name\": 7")).expect("it is there");
    assert!(error.starts_with(&format!("b.json:{line}:")), "{error}");
}

#[test]
fn the_program_says_how_it_went() {
    let folder = std::env::temp_dir().join(format!("typed-nccl-verify-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut wrong = msccl::ring(3);
    wrong.ranks[0][0].steps.pop();
    let files = [msccl::ring(3).xml(), wrong.xml(), "text".to_owned()];
    for (code, text) in files.into_iter().enumerate() {
        let file = folder.join(format!("{code}.xml"));
        std::fs::write(&file, text).expect("a file");
        let told = Command::new(env!("CARGO_BIN_EXE_typed-nccl-verify")).arg(&file).output();
        assert_eq!(told.expect("it runs").status.code(), Some(code as i32));
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// A place in a text, as a part of it, and what comes there.
fn edits() -> impl Strategy<Value = Vec<(f64, String)>> {
    let text = prop_oneof![
        "[0-9]{1,12}",
        "[-\"<>{}\\[\\],:/= a-z]{0,3}",
        Just("4294967296".to_owned()),
        Just("-1".to_owned()),
        Just("\u{e9}".to_owned()),
    ];
    prop::collection::vec((0.0..1.0_f64, text), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn changed_files_are_read_or_refused(which in 0..6_usize, edits in edits(), digits: bool) {
        let mut text = texts().swap_remove(which);
        for (at, with) in edits {
            let mut at = text.floor_char_boundary((at * text.len() as f64) as usize);
            // Most files that can still be read have another number.
            if digits {
                at += text[at..].find(|c: char| c.is_ascii_digit()).unwrap_or(0);
            }
            let end = text.ceil_char_boundary((at + 1).min(text.len()));
            text.replace_range(at..end, &with);
        }
        if let Ok(report) = verify(text.as_bytes(), "changed") {
            prop_assert!(report.to_string().len() < 1 << 20);
        }
    }

    #[test]
    fn bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(verify(&bytes, "bytes").is_err());
    }
}
