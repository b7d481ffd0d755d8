//! Released libraries, without a GPU: what they export, what they say, what they refuse.
//!
//! They are sought in the folders of `NCCL_SYS_TEST_LIBS` (separated as in `PATH`), or else below
//! `target/nccl`, where `cargo run -p xtask -- fetch-nccl` puts them. Where there is none the tests
//! say that they skipped. Each library runs in a process of its own: two NCCLs do not meet, and a
//! crash has a name.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use nccl_sys::*;

const LIBRARIES: &str = "NCCL_SYS_TEST_LIBS";
const LIBRARY: &str = "NCCL_SYS_TEST_LIBRARY";

/// Every library that is there.
fn libraries() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    match env::var_os(LIBRARIES) {
        Some(folders) => env::split_paths(&folders).for_each(|folder| seek(&folder, 6, &mut found)),
        None => {
            let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
            [target, Some(workspace)]
                .into_iter()
                .flatten()
                .for_each(|target| seek(&target.join("nccl"), 6, &mut found));
        }
    }
    found
}

fn seek(folder: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name() == "libnccl.so.2" {
            found.extend(path.canonicalize());
        } else if depth > 0 && path.is_dir() {
            seek(&path, depth - 1, found);
        }
    }
}

/// Runs one of the ignored tests below for every library.
fn for_each_library(test: &str) {
    let libraries = libraries();
    if libraries.is_empty() {
        // Not `eprintln`, which is shown for tests that fail.
        let _ = writeln!(
            io::stderr(),
            "SKIPPED {test}: no NCCL in {LIBRARIES} or target/nccl; \
             `cargo run -p xtask -- fetch-nccl` fetches two"
        );
    }
    let mut failed = Vec::new();
    for library in &libraries {
        let mut command = Command::new(env::current_exe().expect("a test has a path"));
        command.args(["--ignored", "--exact", test, "--nocapture"]);
        command.env(LIBRARY, library).env_remove(ENVIRONMENT);
        // What a shell says to NCCL would be said here too.
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("NCCL_") && name != LIBRARY {
                command.env_remove(name);
            }
        }
        let output = command.output().expect("this program runs");
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            failed.push(format!("{}: {}\n{said}", library.display(), output.status));
        }
    }
    assert!(failed.is_empty(), "{test}\n{}", failed.join("\n"));
}

/// The library of this process.
fn api() -> &'static Api {
    let path = env::var_os(LIBRARY).expect("the test that runs this names a library");
    // SAFETY: the libraries that the tests are given are NCCL's.
    unsafe { Api::load_from(path) }.expect("the library loads")
}

/// Calls a function of the table: its arguments are named to be what it asks for.
macro_rules! call {
    ($api:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $api.$name().expect("the library has the function");
        // SAFETY: null is what this test is about, and is looked at before it is followed: by
        // NCCL's source where it is published, and in every release that these tests have run with.
        // Other pointers are to places of the declared types.
        unsafe { function($($arg),*) }
    }};
}

fn text(string: *const c_char) -> String {
    assert!(!string.is_null());
    // SAFETY: it is not null, and NCCL's strings end with a zero and are not written to meanwhile.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

const IA: ncclResult_t = ncclResult_t::ncclInvalidArgument;
const IU: ncclResult_t = ncclResult_t::ncclInvalidUsage;
const OK: ncclResult_t = ncclResult_t::ncclSuccess;

#[test]
fn libraries_export_what_the_table_says() {
    for_each_library("exports");
}

#[test]
#[ignore = "run for each library, in a process of its own"]
fn exports() {
    let api = api();
    let newer_than_declared = api.version() > BOUND;
    for &function in Function::ALL {
        let declared = api.version().at_least(function.since());
        // The header has it, the library does not.
        let exported = function != Function::ncclCftBarrierCreateRequirement;
        if newer_than_declared && !exported {
            continue;
        }
        assert_eq!(api.has(function), declared && exported, "{function} of {}", api.version());
    }
    let path = api.path().and_then(|path| path.canonicalize().ok());
    assert_eq!(path, env::var_os(LIBRARY).map(PathBuf::from), "the file is known");
    // The same library again is the same table, and now a process-wide search finds it.
    assert!(ptr::eq(api, self::api()));
    // SAFETY: what this process has loaded as libnccl.so.2 is the library above.
    let found = unsafe { Api::load() }.expect("a loaded copy is found");
    assert!(ptr::eq(api, found), "{} and {}", api.origin(), found.origin());
}

#[test]
fn libraries_speak() {
    for_each_library("speaks");
}

#[test]
#[ignore = "run for each library, in a process of its own"]
fn speaks() {
    let api = api();
    for (name, result, since) in ncclResult_t::VALUES {
        let said = text(call!(api, ncclGetErrorString(*result)));
        let known = *name != "ncclNumResults" && api.version().at_least(*since);
        assert_eq!(said != "unknown result code", known, "{name}: {said}");
    }
    assert_eq!(text(call!(api, ncclGetErrorString(ncclResult_t(-1)))), "unknown result code");

    let mut ids = [ncclUniqueId::zeroed(); 2];
    for id in &mut ids {
        assert_eq!(call!(api, ncclGetUniqueId(id)), OK);
        assert!(*id != ncclUniqueId::zeroed());
    }
    assert!(ids[0] != ids[1], "an id is given once");

    assert_eq!(call!(api, ncclGroupStart()), OK);
    assert_eq!(call!(api, ncclGroupEnd()), OK);
    assert_eq!(call!(api, ncclGroupEnd()), IU, "there is no group to end");
}

#[test]
fn libraries_refuse_what_is_null() {
    for_each_library("refuses");
}

#[test]
#[ignore = "run for each library, in a process of its own"]
fn refuses() {
    let api = api();
    let version = api.version();
    let none = NCCL_COMM_NULL;
    let (f32, sum) = (ncclDataType_t::ncclFloat32, ncclRedOp_t::ncclSum);
    let stream: cudaStream_t = ptr::null_mut();
    let (from, to): (*const c_void, *mut c_void) = (ptr::null(), ptr::null_mut());

    assert_eq!(call!(api, ncclGetVersion(ptr::null_mut())), IA);
    assert_eq!(call!(api, ncclGetUniqueId(ptr::null_mut())), IA);
    let said = text(call!(api, ncclGetLastError(none)));
    assert!(said.contains("NULL"), "{said}");

    assert_eq!(call!(api, ncclCommCount(none, ptr::null_mut())), IA);
    assert_eq!(call!(api, ncclCommCuDevice(none, ptr::null_mut())), IA);
    assert_eq!(call!(api, ncclCommUserRank(none, ptr::null_mut())), IA);
    assert_eq!(call!(api, ncclCommGetAsyncError(none, ptr::null_mut())), IA);
    assert_eq!(call!(api, ncclRedOpDestroy(sum, none)), IA);
    let scalar = ncclScalarResidence_t::ncclScalarHostImmediate;
    assert_eq!(call!(api, ncclRedOpCreatePreMulSum(ptr::null_mut(), to, f32, scalar, none)), IA);

    assert_eq!(call!(api, ncclAllReduce(from, to, 1, f32, sum, none, stream)), IA);
    assert_eq!(call!(api, ncclBroadcast(from, to, 1, f32, 0, none, stream)), IA);
    assert_eq!(call!(api, ncclReduce(from, to, 1, f32, sum, 0, none, stream)), IA);
    assert_eq!(call!(api, ncclAllGather(from, to, 1, f32, none, stream)), IA);
    assert_eq!(call!(api, ncclReduceScatter(from, to, 1, f32, sum, none, stream)), IA);
    assert_eq!(call!(api, ncclBcast(to, 1, f32, 0, none, stream)), IA);
    assert_eq!(call!(api, ncclSend(from, 1, f32, 0, none, stream)), IA);
    assert_eq!(call!(api, ncclRecv(to, 1, f32, 0, none, stream)), IA);

    // Ending what is not there succeeds.
    assert_eq!(call!(api, ncclCommFinalize(none)), OK);
    assert_eq!(call!(api, ncclCommDestroy(none)), OK);
    assert_eq!(call!(api, ncclCommAbort(none)), OK);

    if version.at_least(Version::new(2, 19, 3)) {
        assert_eq!(call!(api, ncclCommRegister(none, to, 0, ptr::null_mut())), IA);
        assert_eq!(call!(api, ncclCommDeregister(none, to)), IA);
    }
    if version.at_least(Version::new(2, 22, 3)) {
        let mut info = ncclSimInfo_t::new();
        assert_eq!(call!(api, ncclGroupSimulateEnd(&mut info)), IU, "there is no group to end");
    }
    if version.at_least(Version::new(2, 28, 3)) {
        assert_eq!(call!(api, ncclAlltoAll(from, to, 1, f32, none, stream)), IA);
        assert_eq!(call!(api, ncclGather(from, to, 1, f32, 0, none, stream)), IA);
        assert_eq!(call!(api, ncclScatter(from, to, 1, f32, 0, none, stream)), IA);
    }
    if version.at_least(Version::new(2, 28, 7)) {
        // This too succeeds.
        assert_eq!(call!(api, ncclCommRevoke(none, NCCL_REVOKE_DEFAULT)), OK);
    }
    if version.at_least(Version::new(2, 29, 2)) {
        let window: ncclWindow_t = ptr::null_mut();
        let nowhere = ptr::null_mut();
        assert_eq!(call!(api, ncclCommWindowRegister(none, to, 0, ptr::null_mut(), 0)), IA);
        assert_eq!(call!(api, ncclWinGetUserPtr(none, window, nowhere)), IA);
        assert_eq!(call!(api, ncclGetLsaDevicePointer(window, 0, 0, nowhere)), IA);
        assert_eq!(call!(api, ncclGetPeerDevicePointer(window, 0, 0, nowhere)), IA);
        assert_eq!(call!(api, ncclGetLsaMultimemDevicePointer(window, 0, nowhere)), IA);
        let put = call!(api, ncclPutSignal(from, 1, f32, 0, window, 0, 0, 0, 0, none, stream));
        assert_eq!(put, IA);
        assert_eq!(call!(api, ncclSignal(0, 0, 0, 0, none, stream)), IA);
        let mut signal = ncclWaitSignalDesc_t::default();
        assert_eq!(call!(api, ncclWaitSignal(1, &mut signal, none, stream)), IA);
        assert_eq!(call!(api, ncclCommGetUniqueId(none, ptr::null_mut())), IA);
        let mut child = NCCL_COMM_NULL;
        let grown = call!(api, ncclCommGrow(none, 2, ptr::null(), 0, &mut child, ptr::null_mut()));
        assert_eq!(grown, IA, "a new rank needs an id");

        let mut properties = ncclCommProperties_t::for_library(version).expect("2.29 has it");
        assert_eq!(call!(api, ncclCommQueryProperties(none, &mut properties)), IA);
        let needs = ncclDevCommRequirements_t::for_library(version).expect("2.29 has it");
        assert_eq!(call!(api, ncclDevCommCreate(none, &needs, ptr::null_mut())), IA);
    }
    if version.at_least(Version::new(2, 29, 7)) {
        assert_eq!(call!(api, ncclCommSuspend(none, NCCL_SUSPEND_MEM)), IA);
        assert_eq!(call!(api, ncclCommResume(none)), IA);
        let stat = ncclCommMemStat_t::ncclStatGpuMemTotal;
        assert_eq!(call!(api, ncclCommMemStats(none, stat, ptr::null_mut())), IA);
    }
    if version.at_least(Version::new(2, 31, 2)) {
        let config = ncclCollConfig_t::new();
        assert_eq!(
            call!(api, ncclAllReduceConfig(from, to, 1, f32, sum, none, stream, &config)),
            IA
        );
        assert_eq!(call!(api, ncclAllGatherConfig(from, to, 1, f32, none, stream, &config)), IA);
        assert_eq!(call!(api, ncclScatterConfig(from, to, 1, f32, 0, none, stream, &config)), IA);
    }
}

#[test]
fn libraries_have_parameters() {
    for_each_library("parameters");
}

#[test]
#[ignore = "run for each library, in a process of its own"]
fn parameters() {
    let api = api();
    if !api.has(Function::ncclParamBind) {
        return;
    }
    let mut handle: ncclParamHandle_t = ptr::null_mut();
    assert_eq!(call!(api, ncclParamBind(ptr::null_mut(), ptr::null())), IA);
    assert_eq!(call!(api, ncclParamBind(&mut handle, c"NCCL_NO_SUCH_PARAMETER".as_ptr())), IA);

    let mut table: *mut *const c_char = ptr::null_mut();
    let mut length: c_int = 0;
    assert_eq!(call!(api, ncclParamGetAllParameterKeys(&mut table, &mut length)), OK);
    if !api.version().at_least(Version::new(2, 30, 7)) {
        assert_eq!(length, 0, "the first releases have the functions, and no parameter");
        return;
    }
    let length = usize::try_from(length).expect("it is a length");
    assert!(length > 0);
    // SAFETY: NCCL wrote a table of this length, which stands until this thread asks for it again.
    let keys: Vec<String> =
        unsafe { std::slice::from_raw_parts(table, length) }.iter().map(|key| text(*key)).collect();

    let mut readers = 0;
    for key in &keys {
        let key = std::ffi::CString::new(key.as_str()).expect("a key has no zero");
        assert_eq!(call!(api, ncclParamBind(&mut handle, key.as_ptr())), OK, "{key:?}");
        assert!(!handle.is_null());

        let mut value: *const c_char = ptr::null();
        let mut length: c_int = -1;
        let read = call!(api, ncclParamGetParameter(key.as_ptr(), &mut value, &mut length));
        assert_eq!(read, OK, "{key:?}");
        assert!(length >= 0, "{key:?}");

        // A parameter has one type, and its reader is the only one of the integers' that succeeds.
        let (mut i8, mut i16, mut i32, mut i64) = (0, 0, 0, 0);
        let (mut u8, mut u16, mut u32, mut u64) = (0, 0, 0, 0);
        let results = [
            call!(api, ncclParamGetI8(handle, &mut i8)),
            call!(api, ncclParamGetI16(handle, &mut i16)),
            call!(api, ncclParamGetI32(handle, &mut i32)),
            call!(api, ncclParamGetI64(handle, &mut i64)),
            call!(api, ncclParamGetU8(handle, &mut u8)),
            call!(api, ncclParamGetU16(handle, &mut u16)),
            call!(api, ncclParamGetU32(handle, &mut u32)),
            call!(api, ncclParamGetU64(handle, &mut u64)),
        ];
        let succeeded = results.iter().filter(|result| **result == OK).count();
        assert!(succeeded <= 1, "{key:?}: {results:?}");
        readers += succeeded;
    }
    assert!(readers > 0, "some of {keys:?} is an integer");
}

#[test]
fn libraries_take_a_key() {
    for_each_library("encryption");
}

#[test]
#[ignore = "run for each library, in a process of its own"]
fn encryption() {
    let api = api();
    if !api.has(Function::ncclSetEncryption) {
        return;
    }
    let told = || text(call!(api, ncclGetLastError(NCCL_COMM_NULL)));
    let plain = ncclEncryptionConfig_t::new();
    assert_eq!(call!(api, ncclSetEncryption(&plain)), OK);
    assert_eq!(call!(api, ncclSetEncryption(ptr::null())), OK, "no wish is a wish for nothing");

    let unknown = ncclEncryptionConfig_t { mode: 7, ..plain };
    assert_eq!(call!(api, ncclSetEncryption(&unknown)), IA);
    assert!(told().contains("mode=7"), "{}", told());
    let blank = ncclEncryptionConfig_t { magic: 0, ..plain };
    assert_eq!(call!(api, ncclSetEncryption(&blank)), IA);

    let mode = ncclEncryptionMode_t::NCCL_ENCRYPTION_MODE_PSK.0;
    let keyless = ncclEncryptionConfig_t { mode, ..plain };
    assert_eq!(call!(api, ncclSetEncryption(&keyless)), IA);
    let short =
        ncclEncryptionConfig_t { psk: c"31 bytes are one byte too short".as_ptr(), ..keyless };
    assert_eq!(call!(api, ncclSetEncryption(&short)), IA);
    assert!(told().contains("at least 32 bytes"), "{}", told());
    let keyed =
        ncclEncryptionConfig_t { psk: c"32 bytes are as many as it needs".as_ptr(), ..keyless };
    assert_eq!(call!(api, ncclSetEncryption(&keyed)), OK);

    // NVIDIA's wheels have no TLS: the wish is taken, and the first connection refuses.
    let mut id = ncclUniqueId::zeroed();
    let made = call!(api, ncclGetUniqueId(&mut id));
    println!("with a key an id gives {made:?}: {}", told());
    assert!(made == OK || made == IU, "{made:?}");
}
