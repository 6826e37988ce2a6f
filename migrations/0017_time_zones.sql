-- +goose NO TRANSACTION
-- +goose Up

-- Former names of time zones become the canonical ones of internal/foundation/timezone. A PostgreSQL whose machine lacks a former name refuses it, to
-- servers of 1.0.0. Those may store more of them; a later server takes both for the same. Locks the rows of a thousand users at a time, so that a
-- sign-in or a change of one of them waits for a moment: where all users have one former name, one statement would lock them for as long as it
-- takes to write the table.

-- Until all of it has been done, it can be rolled back, and is pending.
insert into goose_db_version (id, version_id, is_applied)
select max(id) + 1, 17, false from goose_db_version having count(*) filter (where version_id = 17) = 0;

-- +goose StatementBegin
do $$
declare
    canonical constant jsonb := '{
    "Africa/Asmera": "Africa/Asmara", "Africa/Timbuktu": "Africa/Bamako", "Egypt": "Africa/Cairo", "Libya": "Africa/Tripoli",
    "America/Atka": "America/Adak", "US/Aleutian": "America/Adak", "US/Alaska": "America/Anchorage",
    "America/Buenos_Aires": "America/Argentina/Buenos_Aires", "America/Argentina/ComodRivadavia": "America/Argentina/Catamarca",
    "America/Catamarca": "America/Argentina/Catamarca", "America/Cordoba": "America/Argentina/Cordoba",
    "America/Rosario": "America/Argentina/Cordoba", "America/Jujuy": "America/Argentina/Jujuy",
    "America/Mendoza": "America/Argentina/Mendoza", "America/Coral_Harbour": "America/Atikokan", "CST6CDT": "America/Chicago",
    "US/Central": "America/Chicago", "America/Shiprock": "America/Denver", "MST7MDT": "America/Denver", "Navajo": "America/Denver",
    "US/Mountain": "America/Denver", "US/Michigan": "America/Detroit", "America/Yellowknife": "America/Edmonton",
    "Canada/Mountain": "America/Edmonton", "Canada/Atlantic": "America/Halifax", "Cuba": "America/Havana",
    "America/Fort_Wayne": "America/Indiana/Indianapolis", "America/Indianapolis": "America/Indiana/Indianapolis",
    "US/East-Indiana": "America/Indiana/Indianapolis", "America/Knox_IN": "America/Indiana/Knox",
    "US/Indiana-Starke": "America/Indiana/Knox", "America/Pangnirtung": "America/Iqaluit", "Jamaica": "America/Jamaica",
    "America/Louisville": "America/Kentucky/Louisville", "PST8PDT": "America/Los_Angeles", "US/Pacific": "America/Los_Angeles",
    "Brazil/West": "America/Manaus", "Mexico/BajaSur": "America/Mazatlan", "Mexico/General": "America/Mexico_City",
    "EST5EDT": "America/New_York", "US/Eastern": "America/New_York", "Brazil/DeNoronha": "America/Noronha",
    "America/Godthab": "America/Nuuk", "EST": "America/Panama", "MST": "America/Phoenix", "US/Arizona": "America/Phoenix",
    "Canada/Saskatchewan": "America/Regina", "America/Porto_Acre": "America/Rio_Branco", "Brazil/Acre": "America/Rio_Branco",
    "Chile/Continental": "America/Santiago", "Brazil/East": "America/Sao_Paulo", "Canada/Newfoundland": "America/St_Johns",
    "America/Virgin": "America/St_Thomas", "America/Ensenada": "America/Tijuana", "America/Santa_Isabel": "America/Tijuana",
    "Mexico/BajaNorte": "America/Tijuana", "America/Montreal": "America/Toronto", "America/Nipigon": "America/Toronto",
    "America/Thunder_Bay": "America/Toronto", "Canada/Eastern": "America/Toronto", "Canada/Pacific": "America/Vancouver",
    "Canada/Yukon": "America/Whitehorse", "America/Rainy_River": "America/Winnipeg", "Canada/Central": "America/Winnipeg",
    "Antarctica/South_Pole": "Antarctica/McMurdo", "Asia/Ashkhabad": "Asia/Ashgabat", "Asia/Dacca": "Asia/Dhaka",
    "Asia/Saigon": "Asia/Ho_Chi_Minh", "Hongkong": "Asia/Hong_Kong", "Asia/Tel_Aviv": "Asia/Jerusalem", "Israel": "Asia/Jerusalem",
    "Asia/Katmandu": "Asia/Kathmandu", "Asia/Calcutta": "Asia/Kolkata", "Asia/Macao": "Asia/Macau", "Asia/Ujung_Pandang": "Asia/Makassar",
    "Europe/Nicosia": "Asia/Nicosia", "ROK": "Asia/Seoul", "Asia/Chongqing": "Asia/Shanghai", "Asia/Chungking": "Asia/Shanghai",
    "Asia/Harbin": "Asia/Shanghai", "PRC": "Asia/Shanghai", "Singapore": "Asia/Singapore", "ROC": "Asia/Taipei", "Iran": "Asia/Tehran",
    "Asia/Thimbu": "Asia/Thimphu", "Japan": "Asia/Tokyo", "Asia/Choibalsan": "Asia/Ulaanbaatar", "Asia/Ulan_Bator": "Asia/Ulaanbaatar",
    "Asia/Kashgar": "Asia/Urumqi", "Asia/Rangoon": "Asia/Yangon", "Atlantic/Faeroe": "Atlantic/Faroe", "Iceland": "Atlantic/Reykjavik",
    "Australia/South": "Australia/Adelaide", "Australia/Queensland": "Australia/Brisbane", "Australia/Yancowinna": "Australia/Broken_Hill",
    "Australia/North": "Australia/Darwin", "Australia/Currie": "Australia/Hobart", "Australia/Tasmania": "Australia/Hobart",
    "Australia/LHI": "Australia/Lord_Howe", "Australia/Victoria": "Australia/Melbourne", "Australia/West": "Australia/Perth",
    "Australia/ACT": "Australia/Sydney", "Australia/Canberra": "Australia/Sydney", "Australia/NSW": "Australia/Sydney",
    "EET": "Europe/Athens", "CET": "Europe/Brussels", "MET": "Europe/Brussels", "Europe/Tiraspol": "Europe/Chisinau",
    "Eire": "Europe/Dublin", "Asia/Istanbul": "Europe/Istanbul", "Turkey": "Europe/Istanbul", "Europe/Kiev": "Europe/Kyiv",
    "Europe/Uzhgorod": "Europe/Kyiv", "Europe/Zaporozhye": "Europe/Kyiv", "Portugal": "Europe/Lisbon", "WET": "Europe/Lisbon",
    "Europe/Belfast": "Europe/London", "GB": "Europe/London", "GB-Eire": "Europe/London", "W-SU": "Europe/Moscow",
    "Atlantic/Jan_Mayen": "Europe/Oslo", "Poland": "Europe/Warsaw", "NZ": "Pacific/Auckland", "NZ-CHAT": "Pacific/Chatham",
    "Pacific/Truk": "Pacific/Chuuk", "Pacific/Yap": "Pacific/Chuuk", "Chile/EasterIsland": "Pacific/Easter", "HST": "Pacific/Honolulu",
    "Pacific/Johnston": "Pacific/Honolulu", "US/Hawaii": "Pacific/Honolulu", "Pacific/Enderbury": "Pacific/Kanton",
    "Kwajalein": "Pacific/Kwajalein", "Pacific/Samoa": "Pacific/Pago_Pago", "US/Samoa": "Pacific/Pago_Pago",
    "Pacific/Ponape": "Pacific/Pohnpei", "Etc/GMT": "UTC", "Etc/GMT+0": "UTC", "Etc/GMT-0": "UTC", "Etc/GMT0": "UTC",
    "Etc/Greenwich": "UTC", "Etc/UCT": "UTC", "Etc/UTC": "UTC", "Etc/Universal": "UTC", "Etc/Zulu": "UTC", "Factory": "UTC", "GMT": "UTC",
    "GMT+0": "UTC", "GMT-0": "UTC", "GMT0": "UTC", "Greenwich": "UTC", "UCT": "UTC", "Universal": "UTC", "Zulu": "UTC"
}';
    after uuid := '00000000-0000-0000-0000-000000000000';
    last uuid;
begin
    loop
        last := (select user_id from users where user_id > after order by user_id offset 999 limit 1);
        update users set timezone = canonical ->> timezone
        where user_id > after and user_id <= coalesce(last, 'ffffffff-ffff-ffff-ffff-ffffffffffff') and canonical ? timezone;
        commit;
        exit when last is null;
        after := last;
    end loop;
end
$$;
-- +goose StatementEnd

-- +goose Down

-- The canonical names stay: every server knows them.
update goose_db_version set is_applied = false where version_id = 17;
