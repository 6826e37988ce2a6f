const answer = await fetch(process.env.CONNECT_BASE_URL + "/.well-known/oauth-authorization-server");
console.log((await answer.json()).issuer);
