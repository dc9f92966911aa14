//! `read` and `write` copy what they are told, and nothing is written that was not allowed.

use std::process::{Command, Stdio};

use crate::common::{feed, noise, refusal, refused, run, soft_file};

#[test]
fn blocks_come_out_as_they_are_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.img");
    let contents = noise(5, 1_000_000);
    std::fs::write(&path, &contents).unwrap();
    let device = soft_file(&path);
    for (lba, count) in [(0usize, 1usize), (3, 2), (100, 1500), (1953, 1)] {
        let output = run(&["read", &device, "--lba", &lba.to_string(), "--count", &count.to_string()]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let mut expected = contents[lba * 512..contents.len().min((lba + count) * 512)].to_vec();
        expected.resize(count * 512, 0);
        assert!(output.stdout == expected, "LBA {lba}, {count} blocks");
    }
}

#[test]
fn a_file_is_written_only_where_its_path_was_typed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.img");
    let contents = noise(5, 8192);
    std::fs::write(&path, &contents).unwrap();
    let device = soft_file(&path);
    let data = noise(6, 1024);
    let write = ["write", &device, "--lba", "2"];
    for allowed in ["", "--allow-write=/other.img", "--allow-write=disk.img.bak"] {
        let arguments: Vec<&str> =
            write.iter().copied().chain((!allowed.is_empty()).then_some(allowed)).collect();
        let (code, line) = refusal(&arguments, &feed(&arguments, &data));
        assert_eq!(code, 3, "{line}");
        assert!(line.contains(path.to_str().unwrap()) && line.contains("--allow-write="), "{line}");
        assert_eq!(std::fs::read(&path).unwrap(), contents, "the file is as it was");
    }
    let allowed = format!("--allow-write={}", path.display());
    let output = feed(&[&write[..], &[&allowed]].concat(), &data);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = [&contents[..1024], &data, &contents[2048..]].concat();
    assert!(std::fs::read(&path).unwrap() == expected);
}

#[test]
fn benchmarks_that_write_need_permission_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.img");
    std::fs::write(&path, noise(5, 8192)).unwrap();
    for flags in [&["--rw", "randwrite"][..], &["--rw", "randread", "--verify", "crc32c"]] {
        let device = soft_file(&path);
        let (code, line) = refused(&[&["bench", &device, "--bs", "512"], flags].concat());
        assert_eq!(code, 3, "{line}");
        assert_eq!(std::fs::read(&path).unwrap(), noise(5, 8192));
    }
}

#[test]
fn memory_needs_no_permission() {
    let output = feed(&["write", "soft:size=1m", "--lba", "2047"], &noise(1, 512));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn input_must_be_whole_blocks_inside_the_namespace() {
    let write = |flags: &[&str], input: &[u8]| {
        let arguments = [&["write", "soft:size=1m"], flags].concat();
        refusal(&arguments, &feed(&arguments, input))
    };
    let (code, line) = write(&["--lba", "0"], &[0; 513]);
    assert!(code == 1 && line.contains("513") && line.contains("512"), "{code} {line}");
    let (code, line) = write(&["--lba", "0"], &[]);
    assert!(code == 1 && line.contains("0 bytes"), "{code} {line}");
    let (code, line) = write(&["--lba", "0", "--count", "3"], &[0; 1024]);
    assert!(code == 1 && line.contains("1024") && line.contains("1536"), "{code} {line}");
    let (code, line) = write(&["--lba", "2047"], &[0; 1024]);
    assert!(code == 1 && line.contains("more than 512 bytes"), "{code} {line}");
}

#[test]
fn the_partial_last_block_of_a_file_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.img");
    std::fs::write(&path, noise(5, 1000)).unwrap();
    let allowed = format!("--allow-write={}", path.display());
    let arguments = ["write", &soft_file(&path), "--lba", "1", &allowed];
    let (code, line) = refusal(&arguments, &feed(&arguments, &noise(6, 512)));
    assert!(code == 1 || code == 2, "{line}");
    assert!(line.contains("488"), "{line}");
    assert_eq!(std::fs::read(&path).unwrap(), noise(5, 1000));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_warpbell"))
        .args(["read", "soft:size=64m", "--lba", "0", "--count", "131072"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}
