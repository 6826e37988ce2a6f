package clock

// Uptime is how long this machine has run.
var Uptime = uptime
