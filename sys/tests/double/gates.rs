//! What a release lacks, and what the table says then.

use std::ptr;

use nccl_sys::*;

use crate::common::*;

/// Releases, how many functions each exports, and a function that came with it.
const RELEASES: [(&str, usize, Function); 12] = [
    ("2.18.5", 27, Function::ncclSend),
    ("2.19.3", 31, Function::ncclMemAlloc),
    ("2.22.3", 32, Function::ncclGroupSimulateEnd),
    ("2.27.7", 37, Function::ncclCommShrink),
    ("2.28.3", 50, Function::ncclAlltoAll),
    ("2.28.9", 52, Function::ncclCommRevoke),
    ("2.29.2", 63, Function::ncclCommGrow),
    ("2.29.7", 68, Function::ncclCommSuspend),
    ("2.30.3", 82, Function::ncclParamBind),
    ("2.30.7", 82, Function::ncclParamDumpAll),
    ("2.31.2", 95, Function::ncclAllReduceConfig),
    ("2.32.3", 96, Function::ncclSetEncryption),
];

/// Declared, and exported by no library.
const NEVER: Function = Function::ncclCftBarrierCreateRequirement;

#[test]
fn a_release_has_what_the_table_says() {
    for (text, count, newest) in RELEASES {
        let (fake, api) = release(text, text);
        let loaded = version(text);
        assert_eq!(api.version(), loaded);
        assert_eq!(*api.origin(), Origin::Path(fake.path().to_owned()));
        for &function in Function::ALL {
            let expected = loaded.at_least(function.since()) && function != NEVER;
            assert_eq!(api.has(function), expected, "{function} of {loaded}");
        }
        let has = Function::ALL.iter().filter(|function| api.has(**function)).count();
        assert_eq!(has, count, "{loaded}");
        assert!(api.has(newest), "{newest} of {loaded}");
    }
}

#[test]
fn what_is_missing_is_told() {
    for (text, ..) in RELEASES {
        let (_fake, api) = release(text, &format!("missing-{text}"));
        let loaded = version(text);
        for &function in Function::ALL.iter().filter(|function| !api.has(**function)) {
            let needs = function.since();
            let missing = api.missing(function);
            assert_eq!(missing, MissingSymbol { function, needs, loaded, library: Library::Nccl });
            let expected = if function == NEVER && loaded.at_least(needs) {
                format!(
                    "the loaded NCCL {loaded} does not export {function}, which NCCL declares \
                     since {needs}"
                )
            } else {
                format!(
                    "{function} needs NCCL {needs}, and {loaded} is loaded: load a newer library"
                )
            };
            assert_eq!(missing.to_string(), expected);
        }
    }
}

/// The method of a function's name says the same, for a function of each release.
#[test]
fn a_method_says_what_is_missing() {
    macro_rules! check {
        ($api:expr, $($name:ident)*) => { $(
            let function = Function::$name;
            match $api.$name() {
                Ok(_) => assert!($api.has(function), "{function} of {}", $api.version()),
                Err(missing) => {
                    assert!(!$api.has(function), "{function} of {}", $api.version());
                    assert_eq!(missing, $api.missing(function));
                }
            }
        )* };
    }
    for text in ["2.18.5", "2.27.7", "2.29.7", "2.32.3"] {
        let (_fake, api) = release(text, &format!("methods-{text}"));
        check!(api, ncclSend ncclMemAlloc ncclGroupSimulateEnd ncclCommInitRankScalable);
        check!(api, ncclResetDebugInit ncclCommShrink ncclAlltoAll ncclCommRevoke ncclCommGrow);
        check!(api, ncclCommSuspend ncclParamBind ncclAllReduceConfig ncclSetEncryption);
        check!(api, ncclCftBarrierCreateRequirement);
    }
}

/// A function of the table is the library's of that name.
#[test]
fn a_release_answers() {
    let (fake, api) = release("2.27.7", "answers");
    let comm = join(api, 1, 4);
    let mut child = NCCL_COMM_NULL;
    let config = ptr::null_mut();
    assert_eq!(call!(api, ncclCommShrink(comm, &mut 0, 1, &mut child, config, 0)), OK);
    let (mut rank, mut count) = (-1, -1);
    assert_eq!(call!(api, ncclCommUserRank(child, &mut rank)), OK);
    assert_eq!(call!(api, ncclCommCount(child, &mut count)), OK);
    assert_eq!((rank, count), (0, 3));
    assert_eq!(
        fake.called(),
        [
            Function::ncclGetUniqueId,
            Function::ncclCommInitRank,
            Function::ncclCommShrink,
            Function::ncclCommUserRank,
            Function::ncclCommCount,
        ]
    );
}
