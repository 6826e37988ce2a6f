// Package settings reads the service's settings. It owns which settings there are ([Service]), what each type of them accepts
// (types.go), and where they come from: the command line, then the environment, then the file of --config ([Source]).
//
// A flag with the tag `setting` is a setting: it can also be given as an environment variable, see [Variable]. It is optional if
// it has neither a default nor the tag's value "required". kong reads the flags; [Source.Options] makes it read settings.
//
// # Invariants
//
//   - Every problem is reported, in one line that names the setting, what was wrong and what is accepted
//     (connect-svc.TestAllBadSettingsAreTold).
//   - The value of a secret is in no problem (connect-svc.TestAllBadSettingsAreTold).
package settings
