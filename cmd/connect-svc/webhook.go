package main

type webhookCommands struct {
	output
	Verify webhookVerifyCommand `cmd:"" help:"Tell whether a call that somebody received came from the service, and if not why. Exit status 0 or 1." example:"connect-svc webhook verify --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --headers headers.txt --body body.json"`
}
