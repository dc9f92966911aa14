//! What a kernel reads of a file is what the file holds, whatever its length and shape.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::common::{
    await_that, cpu_seconds, crc32c_bitwise, crc32c_bytewise, has_open, json, noise, ok, refused, soft_file,
    spawn,
};

#[test]
fn the_reference_is_crc32c() {
    assert_eq!(crc32c_bitwise(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c_bytewise([b"1234".to_vec(), b"56789".to_vec()]), 0xe306_9283);
}

#[test]
fn any_length() {
    let directory = tempfile::tempdir().unwrap();
    for len in [1, 511, 512, 513, 4095, 4096, 4097, 131_072, 131_073, 3_000_001] {
        let path = directory.path().join(format!("{len}.bin"));
        let contents = noise(len as u64, len);
        std::fs::write(&path, &contents).unwrap();
        let digest = json(&["digest", "--device", &soft_file(&path), "-o", "json"]);
        assert_eq!(digest["crc32c"], format!("{:08x}", crc32c_bitwise(&contents)), "{len}");
        assert_eq!(
            (digest["bytes"].as_u64(), &digest["schema"]),
            (Some(len as u64), &"warpbell.digest/1".into())
        );
        assert_eq!(std::fs::read(&path).unwrap(), contents, "the file is as it was");
    }
}

#[test]
fn any_chunk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.bin");
    let contents = noise(3, 100_001);
    std::fs::write(&path, &contents).unwrap();
    let expected = format!("{:08x}", crc32c_bitwise(&contents));
    for bs in ["512", "4k", "1m"] {
        assert_eq!(
            json(&["digest", &soft_file(&path), "--bs", bs, "-o", "json"])["crc32c"],
            expected,
            "{bs}"
        );
    }
    let text = ok(&["digest", &soft_file(&path)]);
    assert!(text.contains(&expected) && text.contains("100001"), "{text}");
    let way = "\npath: rings host, data host, order: one memory, doorbells mapped (polled memory), ";
    assert!(text.contains(way), "{text}");
    let cmb = format!("{},cmb=1m", soft_file(&path));
    let report = json(&["digest", &cmb, "--rings", "cmb", "-o", "json"]);
    assert_eq!(report["data_path"]["rings"], "cmb (SQ), host (CQ)");
    assert_eq!(report["crc32c"], expected);
}

#[test]
fn a_sparse_gibibyte_and_one_byte() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sparse.bin");
    let len = (1u64 << 30) + 1;
    let mut file = File::create(&path).unwrap();
    file.set_len(len).unwrap();
    for (offset, byte) in [(0, 0xa5), (12_345_678, 0x5a), (len - 1, 0xff)] {
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.write_all(&[byte]).unwrap();
    }
    let chunk = |index: u64| {
        let mut bytes = vec![0u8; (len - (index << 20)).min(1 << 20) as usize];
        for (offset, byte) in [(0, 0xa5), (12_345_678, 0x5a), (len - 1, 0xff)] {
            if offset >> 20 == index {
                bytes[(offset & 0xf_ffff) as usize] = byte;
            }
        }
        bytes
    };
    let expected = crc32c_bytewise((0..=1024).map(chunk));
    let digest = json(&["digest", &soft_file(&path), "-o", "json"]);
    assert_eq!(
        (digest["crc32c"].as_str(), digest["bytes"].as_u64()),
        (Some(&*format!("{expected:08x}")), Some(len))
    );
    let blocks = std::fs::metadata(&path).unwrap().blocks();
    assert!(blocks * 512 < 1 << 20, "reading must not fill the holes: {blocks} blocks");
}

#[test]
fn files_that_may_not_be_written_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("read-only.bin");
    std::fs::write(&path, b"123456789").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(json(&["digest", &soft_file(&path), "-o", "json"])["crc32c"], "e3069283");
}

#[test]
fn a_file_that_grew_keeps_the_length_it_had() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("growing.bin");
    std::fs::write(&path, noise(1, 64 << 20)).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    let device = soft_file(&path);
    let digest = std::thread::scope(|scope| {
        let digest = scope.spawn(|| json(&["digest", &device, "-o", "json"]));
        while !digest.is_finished() {
            file.write_all(&[7; 1000]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        digest.join().unwrap()
    });
    let contents = std::fs::read(&path).unwrap();
    let bytes = digest["bytes"].as_u64().unwrap() as usize;
    assert!((64 << 20..=contents.len()).contains(&bytes));
    assert_eq!(digest["crc32c"], format!("{:08x}", crc32c_bytewise([contents[..bytes].to_vec()])));
}

#[test]
fn a_file_that_was_truncated_fails_and_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shrinking.bin");
    // So long that nobody has read it to its end before it shrinks.
    File::create(&path).unwrap().set_len(256 << 30).unwrap();
    let digest = spawn(&["digest", &soft_file(&path), "-o", "json"]);
    await_that(|| has_open(&digest, &path) && cpu_seconds(&digest) > 0.1);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let output = digest.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "a digest of what is gone is none: {error}");
    assert!(error.starts_with("error: ") && error.lines().count() == 1, "{error}");
}

#[test]
fn unreadable_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (code, line) = refused(&["digest", &soft_file(&directory.path().join("absent"))]);
    assert_eq!(code, 2);
    assert!(line.contains("absent") && line.contains("No such file"), "{line}");
    let (code, line) = refused(&["digest", &soft_file(directory.path())]);
    assert_eq!(code, 2, "{line}");
    assert!(line.contains(directory.path().to_str().unwrap()), "{line}");
}
