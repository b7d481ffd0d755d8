//! Where the loader finds a library, and what it says of one that has no version.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::ptr;

use fake_nccl::{Fake, File};
use nccl_sys::*;

use crate::common::*;

fn load(path: impl AsRef<Path>) -> &'static Api {
    // SAFETY: the paths here lead to the double.
    unsafe { Api::load_from(path) }.expect("the double loads")
}

#[test]
fn by_path_and_by_folder() {
    let folder = folder("by_path");
    let file = File::copy(&folder);
    let api = load(file.path());
    assert_eq!(api.version(), BOUND);
    assert_eq!(*api.origin(), Origin::Path(file.path().to_owned()));
    assert!(api.has(Function::ncclSend));

    let link = folder.join("link.so");
    let _ = fs::remove_file(&link);
    symlink(file.path(), &link).expect("the target folder can be written to");
    for path in [file.path(), &folder, &link] {
        assert!(ptr::eq(load(path), api), "{} is the same library", path.display());
    }
}

#[test]
fn two_files_are_two_libraries() {
    let (first, second) = (double("first"), double("second"));
    assert!(!ptr::eq(first.1, second.1));
    let comm = join(first.1, 0, 1);
    assert_eq!(first.0.called(), [Function::ncclGetUniqueId, Function::ncclCommInitRank]);
    assert_eq!(second.0.log(), []);
    let mut rank = -1;
    assert_eq!(call!(first.1, ncclCommUserRank(comm, &mut rank)), OK);
    assert_eq!(call!(second.1, ncclCommUserRank(comm, &mut rank)), IA);
    assert_eq!(second.0.misuse().len(), 1);
}

const LOADED_FIRST: &str = "NCCL_SYS_TEST_LOADED_FIRST";

/// What a process with this environment loads as NCCL.
fn child(variables: &[(&str, &OsString)]) -> String {
    let this = env::current_exe().expect("a test has a path");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", "finding::load_and_print", "--nocapture"]);
    for name in [ENVIRONMENT, "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", LOADED_FIRST] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().expect("this program runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn load_and_print() {
    if let Some(folder) = env::var_os(LOADED_FIRST) {
        let _loaded = Fake::release(version("2.27.7"), folder);
    }
    // SAFETY: the tests have the double be what is found, and a machine's libnccl.so.2 is NCCL.
    match unsafe { Api::load() } {
        Ok(api) => println!("loaded {} from {}", api.version(), api.origin()),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn by_the_environment() {
    let folder = folder("by_environment");
    let file = File::release(version("2.29.7"), &folder);
    for path in [file.path(), &folder] {
        let said = child(&[(ENVIRONMENT, &path.into())]);
        let expected = format!("loaded 2.29.7 from {} (from {ENVIRONMENT})\n", path.display());
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_loaded_copy_beats_the_search() {
    let searched = folder("searched");
    File::release(version("2.30.7"), &searched);
    let rest = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let paths = [searched].into_iter().chain(env::split_paths(&rest));
    let paths = env::join_paths(paths).expect("no path has a colon");
    let search = ("LD_LIBRARY_PATH", &paths);

    let said = child(&[search]);
    let expected = "loaded 2.30.7 from libnccl.so.2 on the system's search path\n";
    assert!(said.contains(expected), "{said}");

    let said = child(&[search, (LOADED_FIRST, &folder("loaded_first").into())]);
    let expected = "loaded 2.27.7 from libnccl.so.2, already loaded\n";
    assert!(said.contains(expected), "{said}");

    // What the environment names beats both.
    let named = folder("named");
    File::release(version("2.31.2"), &named);
    let first = folder("loaded_first_too").into();
    let said = child(&[search, (LOADED_FIRST, &first), (ENVIRONMENT, &named.into())]);
    assert!(said.contains("loaded 2.31.2 from "), "{said}");
}

#[test]
fn a_version_that_fails_or_is_none_is_told() {
    let fake = Fake::new(folder("no_version"));
    let failure = || {
        let error = fake.api().expect_err("it has no version");
        let [attempt] = error.attempts() else { panic!("{error}") };
        assert_eq!(attempt.origin, Origin::Path(fake.path().to_owned()));
        (attempt.failure.clone(), attempt.failure.to_string())
    };

    fake.fail(Function::ncclGetVersion, UNKNOWN);
    let words = "its ncclGetVersion gives ncclResult_t(77)";
    assert_eq!(failure(), (Failure::NoVersion(UNKNOWN), words.to_owned()));

    for code in [0, 7, -22707] {
        fake.set_version(code);
        let words = format!("its ncclGetVersion says {code}, which is no version");
        assert_eq!(failure(), (Failure::StrangeVersion(code), words));
    }

    // Nothing of that is kept.
    fake.set_version(22707);
    assert_eq!(fake.api().expect("now it has a version").version(), version("2.27.7"));
}
