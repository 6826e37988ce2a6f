
require "securerandom"

def read(tokens, first)
  day = first["history_from"]
  tokens.get("/connect-svc/v1/grants/#{first["grant_id"]}/daily-activity", params: { from: day, to: day }).status
rescue OAuth2::Error => e
  e.response.status
end

def expect(got, wanted)
  raise "#{got}, want #{wanted}" unless got == wanted
end

state, verifier = SecureRandom.urlsafe_base64(32), SecureRandom.urlsafe_base64(32)
puts start(state, verifier)
$stdout.flush
first = exchange($stdin.gets.strip, state, verifier)
expect(read(first, first), 200)
second = refresh(first.refresh_token)
raise "the refresh token is the same" if second.refresh_token == first.refresh_token
expect(read(second, first), 200)
revoke(second)
expect(read(second, first), 401)
begin
  revoke(OAuth2::AccessToken.new(CLIENT, "", refresh_token: "x" * 2049)) # refused, as it is longer than any
rescue OAuth2::Error
  exit
end
raise "a revocation that is refused is taken for done"
