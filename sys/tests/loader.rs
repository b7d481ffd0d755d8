//! What the loader says when there is no NCCL. Needs no library.
//!
//! The search reads the environment and loads into the process, so each case runs this program
//! again as a child with an environment of its own.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use nccl_sys::{Api, ENVIRONMENT, Failure, LoadError, Origin};

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    folder
}

fn load_from(path: impl AsRef<Path>) -> LoadError {
    // SAFETY: none of the files here is a library, so nothing of theirs can run.
    match unsafe { Api::load_from(path) } {
        Ok(api) => panic!("{api:?} is no library"),
        Err(error) => error,
    }
}

#[test]
fn an_explicit_path_is_the_only_one() {
    let error = load_from("/nowhere/libnccl.so.2");
    let [attempt] = error.attempts() else { panic!("{error}") };
    assert_eq!(attempt.origin, Origin::Path("/nowhere/libnccl.so.2".into()));
    assert_eq!(attempt.failure, Failure::NotThere);
    assert_eq!(
        error.to_string(),
        "no NCCL could be loaded; tried\n  /nowhere/libnccl.so.2: not there\n\
         install NCCL, or name a library in TYPED_NCCL_LIB"
    );
}

#[test]
fn an_empty_path_is_told() {
    assert_eq!(load_from("").attempts()[0].failure, Failure::Empty);
}

#[test]
fn a_folder_without_a_library_is_told() {
    let empty = folder("empty");
    assert_eq!(load_from(&empty).attempts()[0].failure, Failure::NotThere);
}

#[test]
fn the_systems_words_come_along() {
    let folder = folder("text");
    let file =
        folder.join(if cfg!(target_vendor = "apple") { "libnccl.dylib" } else { "libnccl.so" });
    fs::write(&file, "not a library").expect("the target folder can be written to");
    for path in [&file, &folder] {
        let error = load_from(path);
        let Failure::DoesNotLoad(said) = &error.attempts()[0].failure else { panic!("{error}") };
        assert!(said.contains("libnccl"), "{said}");
    }
}

/// A library that loads, and has nothing of NCCL's.
#[test]
#[cfg(target_os = "linux")]
fn another_library_is_told() {
    // SAFETY: the C library's math is loaded by any program; it has no function of NCCL's name.
    let error = unsafe { Api::load_from("libm.so.6") }.expect_err("libm is not NCCL");
    assert_eq!(error.attempts()[0].failure, Failure::NotNccl);
}

/// What a process with this environment says when it loads NCCL.
fn child(variables: &[(&str, &Path)]) -> String {
    let this = env::current_exe().expect("a test has a path");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", "load_and_print", "--nocapture"]);
    for name in [ENVIRONMENT, "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().expect("this program runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn load_and_print() {
    // SAFETY: what this machine calls libnccl.so.2 is NCCL; the tests name no other library.
    match unsafe { Api::load() } {
        Ok(api) => println!("loaded {} from {}", api.version(), api.origin()),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn the_environment_is_the_only_place_when_set() {
    let said = child(&[(ENVIRONMENT, Path::new("/nowhere"))]);
    assert!(said.contains("\n  /nowhere (from TYPED_NCCL_LIB): not there\ninstall NCCL"), "{said}");
    let said = child(&[(ENVIRONMENT, Path::new(""))]);
    assert!(said.contains("(from TYPED_NCCL_LIB): it is empty"), "{said}");
}

/// A machine may have an NCCL; where it has none, every place is named, in order.
#[test]
#[cfg(target_os = "linux")]
fn every_place_is_named() {
    let python = folder("python");
    let packages = folder("python/lib/python3.99/site-packages");
    let shims = folder("pyenv/shims");
    let version = folder("pyenv/versions/3.98.1/lib/python3.98/site-packages");
    fs::write(shims.join("python3"), "").expect("the target folder can be written to");
    let said = child(&[("VIRTUAL_ENV", &python), ("PATH", &shims), ("HOME", &folder("home"))]);
    if said.contains("loaded 2.") {
        // Not `eprintln`, which is shown for tests that fail.
        let _ = writeln!(
            io::stderr(),
            "SKIPPED every_place_is_named: this machine has an NCCL: {said}"
        );
        return;
    }
    let wheel = packages.join("nvidia/nccl/lib");
    let mut rest = said.as_str();
    for place in [
        "libnccl.so.2, already loaded: not loaded in this process",
        "libnccl.so, already loaded: not loaded in this process",
        "the program itself: it has no ncclGetVersion: it is not NCCL",
        "libnccl.so.2 on the system's search path: libnccl.so.2: cannot open shared object file",
        "libnccl.so on the system's search path: libnccl.so: cannot open shared object file",
        &format!("{} (a Python wheel): not there", wheel.display()),
        &format!("{} (a Python wheel): not there", version.join("nvidia/nccl/lib").display()),
    ] {
        let Some((_, after)) = rest.split_once(place) else { panic!("no {place} in {said}") };
        rest = after;
    }
}
