//! Every bitfield against a table of the manual's bit positions.
//!
//! For random bits, each field reads exactly the bits that the table says, and the whole value round-trips through
//! its integer and through bytes, reserved bits included.

use proptest::prelude::*;
use warpbell_nvme::command::*;
use warpbell_nvme::completion::StatusField;
use warpbell_nvme::data::*;
use warpbell_nvme::feature::*;
use warpbell_nvme::identify::*;
use warpbell_nvme::log::*;
use warpbell_nvme::register::*;
use zerocopy::{FromBytes, IntoBytes};

/// The raw bits of a field, whatever its type.
trait Raw {
    fn raw(self) -> u64;
}

macro_rules! raw {
    (int: $($int:ty)*; open: $($open:ty)*;) => {
        $( impl Raw for $int { fn raw(self) -> u64 { u64::from(self) } } )*
        $( impl Raw for $open { fn raw(self) -> u64 { u64::from(self.into_bits()) } } )*
    };
}

raw! {
    int: bool u8 u16 u32 u64;
    open: ArbitrationMechanism AsyncEventType BufferSize Cns CommandSet CommitAction Csi FeatureId FeatureSelect
        Fuse LogPageId Psdt QueuePriority SanitizeAction SecureErase SglSubtype SglSupport SglType Shn Shst;
}

/// The mask of bits `msb:lsb`.
fn mask(msb: u32, lsb: u32) -> u64 {
    (u64::MAX >> (63 - (msb - lsb))) << lsb
}

macro_rules! bitfields {
    ($( $Type:ident: $int:ident { $( $field:ident $msb:literal:$lsb:literal; )* } )*) => {
        #[test]
        fn fields_do_not_overlap_and_fit() {
            $(
                let masks = [$(mask($msb, $lsb)),*];
                let union = masks.iter().fold(0, |union, mask| {
                    assert_eq!(union & mask, 0, "fields of {} overlap", stringify!($Type));
                    union | mask
                });
                assert!(union <= u64::from($int::MAX), "a field of {} is too high", stringify!($Type));
            )*
        }

        #[expect(non_snake_case, reason = "each test has the name of its type")]
        mod is_where_the_manual_says {
            use super::*;

            proptest! {
                $(
                    #[test]
                    fn $Type(bits: $int) {
                        let value = super::$Type::from_bits(bits);
                        let bytes = bits.to_le_bytes();
                        prop_assert_eq!(value.into_bits(), bits);
                        prop_assert_eq!(value.as_bytes(), bytes.as_slice());
                        prop_assert_eq!(super::$Type::read_from_bytes(&bytes), Ok(value));
                        $(
                            let want = (u64::from(bits) & mask($msb, $lsb)) >> $lsb;
                            prop_assert_eq!(value.$field().raw(), want, "{}", stringify!($field));
                        )*
                    }
                )*
            }
        }
    };
}

bitfields! {
    // register.rs
    Cap: u64 {
        mqes_z 15:0; cqr 16:16; ams 18:17; to 31:24; dstrd 35:32; nssrs 36:36; css 44:37; bps 45:45;
        cps 47:46; mpsmin 51:48; mpsmax 55:52; pmrs 56:56; cmbs 57:57; nsss 58:58; crwms 59:59;
        crims 60:60;
    }
    Vs: u32 { ter 7:0; mnr 15:8; mjr 31:16; }
    Cc: u32 { en 0:0; css 6:4; mps 10:7; ams 13:11; shn 15:14; iosqes 19:16; iocqes 23:20; crime 24:24; }
    Csts: u32 { rdy 0:0; cfs 1:1; shst 3:2; nssro 4:4; pp 5:5; st 6:6; }
    Aqa: u32 { asqs_z 11:0; acqs_z 27:16; }
    Crto: u32 { crwmt 15:0; crimt 31:16; }
    // register/cmb.rs
    CmbLoc: u32 {
        bir 2:0; cqmms 3:3; cqpds 4:4; cdpmls 5:5; cdpcils 6:6; cdmmms 7:7; cqda 8:8; ofst 31:12;
    }
    CmbSz: u32 { sqs 0:0; cqs 1:1; lists 2:2; rds 3:3; wds 4:4; szu 11:8; sz 31:12; }
    CmbMsc: u64 { cre 0:0; cmse 1:1; cba 63:12; }
    CmbSts: u32 { cbai 0:0; }
    ElasticityBufferSize: u32 { szu 3:0; rbb 4:4; wbz 31:8; }
    SustainedWriteThroughput: u32 { swtu 3:0; swtv 31:8; }
    // register/pmr.rs
    PmrCap: u32 { rds 3:3; wds 4:4; bir 7:5; pmrtu 9:8; pmrwbm 13:10; pmrto 23:16; cmss 24:24; }
    PmrCtl: u32 { en 0:0; }
    PmrSts: u32 { err 7:0; nrdy 8:8; hsts 11:9; cbai 12:12; }
    PmrMscl: u32 { cmse 1:1; cba 31:12; }
    // command.rs
    Cdw0: u32 { opc 7:0; fuse 9:8; psdt 15:14; cid 31:16; }
    // command/queue.rs
    QueueIdSize: u32 { qid 15:0; qsize_z 31:16; }
    CreateIoCqCdw11: u32 { pc 0:0; ien 1:1; iv 31:16; }
    CreateIoSqCdw11: u32 { pc 0:0; qprio 2:1; cqid 31:16; }
    DeleteQueueCdw10: u32 { qid 15:0; }
    AbortCdw10: u32 { sqid 15:0; cid 31:16; }
    AbortResult: u32 { not_aborted 0:0; }
    // command/event.rs
    AsyncEvent: u32 { event_type 2:0; info 15:8; log_page 23:16; }
    // command/admin.rs
    IdentifyCdw10: u32 { cns 7:0; cntid 31:16; }
    IdentifyCdw11: u32 { cnssid 15:0; csi 31:24; }
    GetFeaturesCdw10: u32 { fid 7:0; sel 10:8; }
    SetFeaturesCdw10: u32 { fid 7:0; sv 31:31; }
    // command/nvm.rs
    ReadWrite: u32 { nlb_z 15:0; dtype 23:20; stc 24:24; deac 25:25; prinfo 29:26; fua 30:30; lr 31:31; }
    ReadWriteCdw13: u32 {
        access_frequency 3:0; access_latency 5:4; sequential 6:6; incompressible 7:7; dspec 31:16;
    }
    DsmCdw10: u32 { nr_z 7:0; }
    DsmCdw11: u32 { idr 0:0; idw 1:1; ad 2:2; }
    CopyCdw12: u32 {
        nr_z 7:0; df 11:8; prinfor 15:12; dtype 23:20; stcw 24:24; stcr 25:25; prinfow 29:26; fua 30:30;
        lr 31:31;
    }
    // command/maintenance.rs
    FormatNvmCdw10: u32 { lbafl 3:0; mset 4:4; pi 7:5; pil 8:8; ses 11:9; lbafu 13:12; }
    SanitizeCdw10: u32 { sanact 2:0; ause 3:3; owpass 7:4; oipbp 8:8; ndas 9:9; }
    FirmwareCommitCdw10: u32 { fs 2:0; ca 5:3; bpid 31:31; }
    // completion.rs
    StatusField: u16 { phase 0:0; sc 8:1; sct 11:9; crd 13:12; m 14:14; dnr 15:15; }
    // data.rs
    SglId: u8 { subtype 3:0; sgl_type 7:4; }
    // feature.rs
    FeatureCapabilities: u32 { saveable 0:0; namespace_specific 1:1; changeable 2:2; }
    NumberOfQueues: u32 { nsqr_z 15:0; ncqr_z 31:16; }
    Arbitration: u32 { ab 2:0; lpw_z 15:8; mpw_z 23:16; hpw_z 31:24; }
    PowerManagement: u32 { ps 4:0; wh 7:5; }
    TemperatureThreshold: u32 { tmpth 15:0; tmpsel 19:16; thsel 21:20; }
    ErrorRecovery: u32 { tler 15:0; dulbe 16:16; }
    VolatileWriteCache: u32 { wce 0:0; }
    InterruptCoalescing: u32 { thr_z 7:0; time 15:8; }
    InterruptVectorConfig: u32 { iv 15:0; cd 16:16; }
    WriteAtomicity: u32 { dn 0:0; }
    AsyncEventConfig: u32 {
        smart 7:0; namespace_attribute 8:8; firmware_activation 9:9; telemetry_log 10:10;
        ana_change 11:11; predictable_latency 12:12; lba_status 13:13; endurance_group 14:14;
        subsystem_shutdown 15:15; zone_descriptor 27:27; discovery_log 31:31;
    }
    Timestamp: u64 { timestamp 47:0; synch 48:48; origin 51:49; }
    KeepAliveTimer: u32 { kato 31:0; }
    // identify.rs
    IoCommandSetVector: u64 { nvm 0:0; key_value 1:1; zoned 2:2; }
    // identify/controller.rs
    PowerStateFlags: u8 { mxps 0:0; nops 1:1; }
    // identify/controller_bits.rs
    Cmic: u8 { multi_port 0:0; multi_controller 1:1; sr_iov_vf 2:2; ana 3:3; }
    Oaes: u32 {
        namespace_attribute 8:8; firmware_activation 9:9; ana_change 11:11; predictable_latency 12:12;
        lba_status 13:13; endurance_group 14:14; subsystem_shutdown 15:15; zone_descriptor 27:27;
        discovery_log 31:31;
    }
    Ctratt: u32 {
        hids 0:0; nopspm 1:1; nsets 2:2; rrlvls 3:3; egs 4:4; plm 5:5; tbkas 6:6; ng 7:7; sqa 8:8;
        ulist 9:9; mds 10:10; fcm 11:11; vcm 12:12; deg 13:13; dnvms 14:14; elbas 15:15;
    }
    Oacs: u16 {
        security 0:0; format_nvm 1:1; firmware 2:2; ns_management 3:3; self_test 4:4; directives 5:5;
        nvme_mi 6:6; virtualization 7:7; dbbuf 8:8; lba_status 9:9; lockdown 10:10;
    }
    Frmw: u8 { slot1_read_only 0:0; slots 3:1; activation_without_reset 4:4; smud 5:5; }
    Lpa: u8 {
        smart_per_namespace 0:0; command_effects 1:1; extended_data 2:2; telemetry 3:3;
        persistent_event 4:4; supported_pages 5:5; telemetry_area_4 6:6;
    }
    Sanicap: u32 { ces 0:0; bes 1:1; ows 2:2; ndi 29:29; nodmmas 31:30; }
    EntrySizes: u8 { min 3:0; max 7:4; }
    Oncs: u16 {
        compare 0:0; write_uncorrectable 1:1; dataset_management 2:2; write_zeroes 3:3; save_select 4:4;
        reservations 5:5; timestamp 6:6; verify 7:7; copy 8:8;
    }
    Fna: u8 { format_all 0:0; erase_all 1:1; crypto_erase 2:2; no_broadcast 3:3; }
    Vwc: u8 { present 0:0; flush_all 2:1; }
    Sgls: u32 {
        support 1:0; keyed 2:2; sdt 15:8; bit_bucket 16:16; metadata_byte_aligned 17:17;
        longer_than_data 18:18; mptr_sgl 19:19; address_offset 20:20; transport 21:21;
    }
    // identify/namespace.rs
    NsFeat: u8 { thinp 0:0; nsabp 1:1; dae 2:2; uidreuse 3:3; optperf 4:4; }
    Flbas: u8 { index_lower 3:0; extended 4:4; index_upper 6:5; }
    LbaFormat: u32 { ms 15:0; lbads 23:16; rp 25:24; }
    ExtendedLbaFormat: u32 { sts 6:0; pif 8:7; }
    // log.rs
    GetLogPageCdw10: u32 { lid 7:0; lsp 14:8; rae 15:15; numdl_z 31:16; }
    GetLogPageCdw11: u32 { numdu_z 15:0; lsi 31:16; }
    GetLogPageCdw12: u32 { lpol 31:0; }
    GetLogPageCdw13: u32 { lpou 31:0; }
    GetLogPageCdw14: u32 { uuid_index 6:0; ot 23:23; csi 31:24; }
    // log/page.rs
    ParameterErrorLocation: u16 { byte 7:0; bit 10:8; }
    CriticalWarning: u8 {
        spare 0:0; temperature 1:1; reliability 2:2; read_only 3:3; backup_failed 4:4; pmr 5:5;
    }
    FirmwareSlotInfo: u8 { active 2:0; next 6:4; }
    CommandEffects: u32 { csupp 0:0; lbcc 1:1; ncc 2:2; nic 3:3; ccc 4:4; cse 18:16; uss 19:19; csp 31:20; }
    SanitizeStatus: u16 { outcome 2:0; passes 7:3; gde 8:8; }
}
